"""The folder of a sweep: what is in it after any interruption says where to go on.

sweep.plan.json      what was asked, before the first server is started
prompts/             one file per round and load
cells/ROUND/ARM/cN/  one load run each; it counts once it has its summary
failures.jsonl       arms that did not start, died, or were refused, with the reason
logs/ARM.log         what servers printed
sweep.json           everything, written when the sweep ends or is interrupted
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from specdecode.durable import written_whole
from specdecode.errors import ConfigError, EvidenceError, UserError
from specdecode.workload.load.faults import INTERRUPTED
from specdecode.workload.load.journal import SUMMARY, read_lines
from specdecode.workload.sweep.arms import Arm, arm_from_json
from specdecode.workload.sweep.cells import Cell, read_cell
from specdecode.workload.sweep.spec import SweepSpec

PLAN: Final = "sweep.plan.json"
FAILURES: Final = "failures.jsonl"


@dataclass(frozen=True)
class Failure:
    """Why an arm has no more cells.

    Attributes:
        arm: its name.
        round: in which it failed, from 1.
        concurrency: load at which it failed; None before any.
        reason: with the end of the server's log where there is one.
        at: wall-clock time.
    """

    arm: str
    round: int
    concurrency: int | None
    reason: str
    at: str


class SweepFolder:
    """Reads and writes a sweep's folder.

    Args:
        path: new or empty, or that of the same sweep.
        manifest: with its `sha256`.

    Raises:
        UserError: the folder holds something else.
    """

    def __init__(self, path: Path, manifest: Mapping[str, Any]) -> None:
        self.path = path
        if (path / PLAN).is_file():
            self._check(manifest)
        elif path.exists() and any(path.iterdir()):
            raise UserError(f"{path} is not empty and holds no sweep; choose a new folder")
        else:
            path.mkdir(parents=True, exist_ok=True)
            write_json(path / PLAN, manifest)
        # What failed in an earlier call is tried again: perhaps what was missing is there now.
        self._failed = {(f.arm, f.round, f.concurrency): f.at for f in self.failures()}

    def cell(self, arm: str, number: int, concurrency: int) -> Path:
        """Folder of a cell's load run."""
        return self.path / "cells" / f"round-{number}" / arm / f"c{concurrency}"

    def log(self, arm: str) -> Path:
        """File that its server's output goes to."""
        return self.path / "logs" / f"{arm}.log"

    def read(self, arm: str, number: int, concurrency: int) -> Cell | None:
        """A cell that was measured; None if it was not, or is to be measured again."""
        folder = self.cell(arm, number, concurrency)
        if not (folder / SUMMARY).is_file():
            return None
        cell = read_cell(folder, arm, number, concurrency)
        failed = self._failed.get(cell.key)
        if failed is not None and not cell.began_after(failed):
            return None  # what was measured after the failure counts
        return None if cell.summary["verdict"]["stopped"] == INTERRUPTED else cell

    def make_room(self, arm: str, number: int, concurrency: int) -> Path:
        """The folder of a cell that is to be measured; what an interruption left is set aside."""
        folder = self.cell(arm, number, concurrency)
        if folder.exists():
            aside = folder.with_name(f"{folder.name}.interrupted")
            count = 1
            while aside.exists():
                count += 1
                aside = folder.with_name(f"{folder.name}.interrupted-{count}")
            folder.rename(aside)
        folder.parent.mkdir(parents=True, exist_ok=True)
        return folder

    def fail(self, arm: str, number: int, concurrency: int | None, reason: str) -> Failure:
        """Record that an arm failed."""
        failure = Failure(arm, number, concurrency, reason, datetime.now(UTC).isoformat())
        path = self.path / FAILURES
        with path.open("r+b" if path.exists() else "w+b") as file:
            # Half a line, of a machine that went down, would make this one unreadable, too.
            file.truncate(file.read().rfind(b"\n") + 1)
            file.seek(0, os.SEEK_END)
            file.write(json.dumps(asdict(failure)).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        return failure

    def failures(self) -> list[Failure]:
        """All that were recorded, those of earlier calls too."""
        return [Failure(**line) for line in read_lines(self.path / FAILURES)]

    def _check(self, manifest: Mapping[str, Any]) -> None:
        asked = json.loads((self.path / PLAN).read_text(encoding="utf-8"))
        if asked.get("sha256") == manifest["sha256"]:
            return
        differ = [name for name in manifest if asked.get(name) != manifest[name]]
        differ.remove("sha256")
        raise UserError(
            f"{self.path} holds another sweep: {', '.join(differ) or 'its plan'} differ; "
            "resume with the settings it began with, or choose a new folder"
        )


def read_plan(path: Path) -> tuple[SweepSpec, list[Arm]]:
    """What a sweep was asked, from its folder.

    Raises:
        UserError: there is no sweep in the folder.
        EvidenceError: its plan was damaged.
        ConfigError: it cannot be started from what is recorded.
    """
    if not (path / PLAN).is_file():
        raise UserError(f"{path} holds no sweep; name the folder that --out named")
    try:
        asked = json.loads((path / PLAN).read_text(encoding="utf-8"))
        return SweepSpec(**asked["spec"]), [arm_from_json(value) for value in asked["arms"]]
    except ConfigError:
        raise
    except (ValueError, KeyError, TypeError) as error:
        raise EvidenceError(f"{path / PLAN} is not what a sweep writes ({error})") from error


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """A JSON file that is there whole or not at all."""
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    with written_whole(path) as file:
        file.write(text.encode("utf-8"))
