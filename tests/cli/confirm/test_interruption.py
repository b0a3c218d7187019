"""What a confirmation that does not end in one go costs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from specdecode.governance import EXIT_CODES, Status
from specdecode.workload import confirmation
from tests.cli.confirm.sealed_repository import COUNT, ROOT, opened

KILLED = """
import os, signal, sys
from specdecode.cli import main
from specdecode.workload import confirmation

real, made = confirmation.generate_record, 0

def dying(*arguments):
    global made
    if made == 8:  # the third row of the second prompt
        os.kill(os.getpid(), signal.SIGKILL)
    made += 1
    return real(*arguments)

confirmation.generate_record = dying
main(sys.argv[1:])
"""


def test_killed_it_goes_on_without_the_prompt_in_flight_which_counts_as_failed(
    specdecode, repository
):
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, "confirm", *repository.options],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    done = specdecode("confirm", *repository.options)
    rows = repository.rows()

    assert done.document["lost"] == 1
    assert len(rows) == COUNT * 6
    gone = [row for row in rows if row.error is not None]
    assert len(gone) == 4
    assert len({row.prompt_id for row in gone}) == 1
    assert all(row.error.startswith("lost: ") for row in gone)
    assert done.code == EXIT_CODES[Status.INVALID]  # 1 of 4 prompts: more than the plan bears
    assert any("the baseline failed" in reason for reason in done.document["reasons"])


@pytest.mark.parametrize(
    ("error", "code"),
    [(KeyboardInterrupt(), 130), (OSError(28, "No space left on device"), 2)],
    ids=["Ctrl-C", "full disk"],
)
def test_an_interruption_tells_what_it_costs(specdecode, repository, monkeypatch, error, code):
    def interrupted(*_arguments):
        raise error

    monkeypatch.setattr(confirmation, "generate_record", interrupted)
    done = specdecode("confirm", *repository.options)

    assert done.code == code
    assert "The prompt in flight is lost and counts as failed" in done.err
    monkeypatch.undo()
    monkeypatch.chdir(repository.root)
    assert specdecode("confirm", *repository.options).document["lost"] == 1


def test_an_arm_that_cannot_decode_consumes_nothing(specdecode, repository, monkeypatch):
    monkeypatch.setattr(confirmation, "warm_up", lambda *_arguments: {"block": "broken"})
    done = specdecode("confirm", *repository.options)

    assert done.code == 1
    assert "nothing was opened: block: broken" in done.err
    assert not opened(repository)
