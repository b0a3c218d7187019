"""Signs for the person who may approve: `python -m pipelines.demo.approver RUN`.

Only in a demonstration may a program do that. It signs every GO it finds on record, the way a
person would: with `specdecode approve`, on the verdict's file. Whoever would rather sign starts the
demonstration with --ask.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import threading
from pathlib import Path

from pipelines.console import say
from pipelines.demo.papers import Papers, papers_in
from specdecode.governance.signing import SigningKey
from specdecode.governance.verdict import Status

_LOOK_S = 0.5


def command(papers: Papers, verdict: Path) -> list[str]:
    """The command that approves a verdict."""
    return [
        *(sys.executable, "-m", "specdecode", "approve", str(verdict)),
        *("--plan", str(papers.plan), "--key", str(papers.approver)),
        *("--signers", str(papers.signers), "--ledger", str(papers.ledger)),
    ]


def waiting(records: Path, key: SigningKey) -> list[Path]:
    """Verdicts on record that are GO and have no signature of this key yet."""
    found = []
    for verdict in sorted(records.glob("release-*/*.verdict.json")):
        signed = verdict.with_suffix(f".{key.key_id}.approval.json").exists()
        if not signed and json.loads(verdict.read_bytes())["status"] == Status.GO.value:
            found.append(verdict)
    return found


def sign(papers: Papers, verdict: Path) -> bool:
    """Approve a verdict; False, with the reason told, where that is refused."""
    # In its own process: signing resolves the signers' file from where flows run.
    done = subprocess.run(command(papers, verdict), capture_output=True, text=True, check=False)
    said = (done.stdout if done.returncode == 0 else done.stderr).strip()
    say(f"{verdict.name}: {said}")
    return done.returncode == 0


def main(argv: list[str] | None = None) -> int:
    """Sign until a signal comes."""
    parser = argparse.ArgumentParser(prog="python -m pipelines.demo.approver", description=__doc__)
    parser.add_argument("run", type=Path, help="folder of the run")
    run: Path = parser.parse_args(argv).run
    papers = papers_in(run)
    key = SigningKey.load(papers.approver)
    done = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: done.set())
    say(f"waits for verdicts in {run / 'records'}")
    refused: set[Path] = set()
    while not done.wait(_LOOK_S):
        for verdict in waiting(run / "records", key):
            if verdict not in refused and not sign(papers, verdict):
                refused.add(verdict)  # said once; a person has to look
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
