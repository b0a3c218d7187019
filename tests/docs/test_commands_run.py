"""Commands of README and docs are run, page by page, in the order in which a reader meets them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from specdecode.cli import main
from tests.docs.commands import PAGES, commands_of
from tests.docs.outcomes import RUN

TRANSLATED = "README.ja.md"  # has the commands of README.md, as test_readmes.py shows
PAGES_THAT_RUN = [
    page for page in PAGES if page != TRANSLATED and any(c.text in RUN for c in commands_of(page))
]
NEEDED = ("curl", "openssl")

pytestmark = pytest.mark.slow


def made_ready(command, how, server):
    """The command as it is run: cheap, and with the server that is there."""
    text = command.text
    for part, instead in how.instead.items():
        assert part in text, f"{text}: {part} is not in it, so nothing can take its place"
        text = text.replace(part, server() if instead == "{server}" else instead)
    return f"{text} {how.more}".strip()


def run(text, command, capfd):
    """Exit code and output; this project's program in this process, others by the shell."""
    words = type(command)(command.page, text).programs
    capfd.readouterr()
    if len(words) == 1 and words[0][0] == "specdecode":
        with pytest.raises(SystemExit) as ended:
            main(words[0][1:])
        code = int(ended.value.code or 0)
        return code, "".join(capfd.readouterr())
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", text], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def listed_as_signers(output):
    """What a reader does with what `keys new` prints."""
    if "public_key:" in output:
        with Path("plans/signers.yaml").open("a", encoding="utf-8") as file:
            file.write(re.search(r"- name.*?public_key:[^\n]*\n", output, re.DOTALL)[0])


@pytest.mark.parametrize("page", PAGES_THAT_RUN)
def test_commands_do_what_the_page_says(page, scratch, request, capfd):
    for command in commands_of(page):
        how = RUN.get(command.text)
        if how is None or any(w[0] in NEEDED and not shutil.which(w[0]) for w in command.programs):
            continue
        text = made_ready(command, how, lambda: request.getfixturevalue("served"))
        code, output = run(text, command, capfd)
        assert code in how.codes, f"{text} ended with {code}:\n{output[-3000:]}"
        assert how.says in output, f"{text}:\n{output[-3000:]}"
        listed_as_signers(output)
