"""What README and docs say can be followed. Commands as such are looked at in tests/docs."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path.relative_to(ROOT).as_posix() for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]
)
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")
CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)


def commands(page: str) -> list[list[str]]:
    """`specdecode` commands of a page's console blocks, comments removed."""
    text = (ROOT / page).read_text(encoding="utf-8").replace("\\\n", " ")
    blocks = CONSOLE.findall(text)
    lines = [shlex.split(line, comments=True) for block in blocks for line in block.splitlines()]
    return [line[1:] for line in lines if line and line[0] == "specdecode"]


@pytest.mark.parametrize("page", PAGES)
def test_links_between_pages_lead_to_files(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    folder = (ROOT / page).parent
    broken = [link for link in LINK.findall(text) if not (folder / link).exists()]
    assert broken == []


def test_the_readme_shows_every_command(specdecode):
    shown = {line[0] for line in commands("README.md")}
    offered = set(re.findall(r"^│ (\w+) ", specdecode("--help").out, re.MULTILINE))
    assert shown == offered


def test_every_command_has_an_example_and_fits_80_columns(specdecode):
    def commands_below(*group):
        shown = specdecode(*group, "--help").out
        return re.findall(r"^│ (\w+) ", shown[shown.index("Commands") :], re.MULTILINE)

    groups = ("plan", "keys", "ledger", "vault")
    alone = [(name,) for name in commands_below() if name not in groups]
    groups = (*groups, "distil")  # a command by itself, too
    for command in alone + [(group, name) for group in groups for name in commands_below(group)]:
        shown = specdecode(*command, "--help").out
        assert f"Example: specdecode {' '.join(command)}" in shown, command
        assert max(map(len, shown.splitlines())) <= 80, command


def test_make_targets_in_the_pages_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        named = set(re.findall(r"`make ([a-z-]+)", text)) | set(
            re.findall(r"^make ([a-z-]+)", text, re.MULTILINE)
        )
        assert named <= targets, page


def test_exit_codes_in_the_readme_are_those_of_the_program():
    from specdecode.cli import exit_codes
    from specdecode.governance import EXIT_CODES

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    documented = {int(code) for code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)}
    ours = {
        value for name, value in vars(exit_codes).items() if name.isupper() and type(value) is int
    }
    assert documented == ours | set(EXIT_CODES.values())
