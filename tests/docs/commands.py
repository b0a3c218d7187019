"""The commands that README and docs show, one by one."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path.relative_to(ROOT).as_posix() for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]
)
SHELL = ("console", "bash", "sh", "shell")
OTHER = ("text", "python", "yaml", "json")
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# A block may be indented instead of fenced; what begins with one of these words is a command.
INDENTED = re.compile(r"^    (?:specdecode|make|python|pip|curl|prefect|git|dvc) .*$", re.MULTILINE)
CHAINED = ("&&", "||", ";", "|", "&")
ASSIGNED = re.compile(r"[A-Z_]+=\S*")


@dataclass(frozen=True)
class Command:
    """One line of a shell block, with the lines it goes on in.

    Attributes:
        page: the page, from the root of the repository.
        text: as written, on one line, without prompt and comment.
    """

    page: str
    text: str

    @property
    def programs(self) -> list[list[str]]:
        """The programs it starts, each as a list of words; variables and redirections are gone."""
        found: list[list[str]] = [[]]
        words = iter(shlex.split(self.text))
        for word in words:
            if word in CHAINED:
                found.append([])
            elif word in (">", ">>", "<"):
                next(words, None)
            elif found[-1] or not ASSIGNED.fullmatch(word):
                found[-1].append(word)
        return [program for program in found if program]


def fences(page: str) -> list[tuple[str, str]]:
    """Language and content of every fenced block of a page."""
    return FENCE.findall((ROOT / page).read_text(encoding="utf-8"))


def commands_of(page: str, text: str | None = None) -> list[Command]:
    """Every command of a page, in order, from fenced and from indented blocks.

    Args:
        page: the page, from the root of the repository.
        text: its content, if it is not the file's.
    """
    if text is None:
        text = (ROOT / page).read_text(encoding="utf-8")
    blocks = [(found.start(), found[2]) for found in FENCE.finditer(text) if found[1] in SHELL]
    outside = FENCE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)  # offsets stay
    blocks += [(at.start(), _whole(outside[at.start() :])) for at in INDENTED.finditer(outside)]
    return [Command(page, line) for _, block in sorted(blocks) for line in _lines(block)]


def _whole(text: str) -> str:
    """The first line of an indented block, with those that a backslash or a quote leaves open."""
    taken = ""
    for line in text.splitlines():
        taken += line.strip() + "\n"
        if not line.endswith("\\") and _closed(taken):
            break
    return taken


def _lines(block: str) -> Iterator[str]:
    pending = ""
    for line in block.replace("\\\n", " ").splitlines():
        pending = f"{pending} {line}" if pending else line.removeprefix("$ ")
        if not _closed(pending):
            continue
        words = shlex.split(pending, comments=True)
        if words:
            yield " ".join(_uncommented(pending).split())
        pending = ""
    assert not pending, f"a quote is left open: {pending}"


def _closed(text: str) -> bool:
    try:
        shlex.split(text, comments=True)
    except ValueError:
        return False
    return True


def _uncommented(line: str) -> str:
    """The line up to its comment: the shortest prefix with the words that the whole has."""
    words = shlex.split(line, comments=True)
    for found in re.finditer(r"(?:^|\s)#", line):
        before = line[: found.start()]
        if _closed(before) and shlex.split(before, comments=True) == words:
            return before
    return line
