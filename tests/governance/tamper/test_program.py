"""The attacks a reader thinks of first, each told by the exit code of the program itself.

Each is made twice: by someone who changes the file and no more, and by someone without a key who
makes everything fit again that can be made to fit.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest

from specdecode.governance.verifier import PROGRAM, pack
from tests.governance.bundles import SEALED, approval_of, chained, edited, repacked, seal_line, utc
from tests.governance.tamper.attacks import (
    APPROVED,
    PLAN,
    SEAL,
    compact,
    drop_some,
    flipped,
    lines_of,
    lower,
    rows_changed,
    swap_arms,
    unsigned,
    with_approval,
    with_head,
)

Files = dict[str, bytes]


class Attack(NamedTuple):
    """What was done, what the program says of it, and its exit code."""

    name: str
    change: Callable[[Files], Files]
    fitted: bool
    code: int
    cause: str


def rows(change):
    return lambda files: {"rows.jsonl": rows_changed(files, change)["rows.jsonl"]}


def rows_and_digests(change):
    return lambda files: rows_changed(files, change)


def backwards(files):
    return {"rows.jsonl": b"".join(lines_of(files["rows.jsonl"])[::-1])}


def lowered(files):
    plan = json.loads(files["plan.json"])
    lower(plan)
    return {"plan.json": compact(plan)}


def replayed(files):
    return {"approvals/000.json": approval_of("0" * 64).to_bytes()}


def replayed_on_record(files):
    changed = with_approval(files, approval_of("0" * 64))
    return {name: changed[name] for name in ("approvals/000.json", "ledger.jsonl", "record.json")}


def cut(files):
    return {"ledger.jsonl": b"".join(lines_of(files["ledger.jsonl"])[:-1])}


def cut_and_headed(files):
    changed = with_head(files, cut(files)["ledger.jsonl"])
    return {name: changed[name] for name in ("ledger.jsonl", "record.json")}


def dated_back(files):
    earlier = files["ledger.jsonl"].replace(b"2025-12-30", b"2025-12-01", 1)
    return {"ledger.jsonl": earlier}


def dated_back_and_chained(files):
    """The decision dated before the seal."""
    kind, _, body = APPROVED
    ledger = chained(seal_line(SEAL, PLAN), (kind, SEALED.replace(year=2024), body))
    changed = with_head(files, ledger)
    return {name: changed[name] for name in ("ledger.jsonl", "record.json")}


def clock_set_back(files):
    change = lambda record: record.update(at=utc(SEALED))  # noqa: E731
    return {"record.json": edited(files["record.json"], change)}


def one_byte(files):
    return {"verdict.json": flipped(files["verdict.json"], 5000)}


ATTACKS = (
    Attack("one byte flipped", one_byte, False, 3, "verdict.json is not as MANIFEST.json lists it"),
    Attack("one byte flipped", one_byte, True, 3, "the ledger records another verdict"),
    Attack("arms exchanged", rows(swap_arms), False, 3, "rows.jsonl is not as"),
    Attack("arms exchanged", rows_and_digests(swap_arms), True, 3, "speculation is not in order"),
    Attack("rows of one arm dropped", rows(drop_some), False, 3, "rows.jsonl is not as"),
    Attack("rows of one arm dropped", rows_and_digests(drop_some), True, 3,
           "missing is not in order: p0000/greedy"),
    Attack("threshold moved", lowered, False, 3, "plan.json is not as MANIFEST.json lists it"),
    Attack("threshold moved", lowered, True, 3, "the seal is of another plan"),
    Attack("rows reordered", backwards, False, 3, "rows.jsonl is not as MANIFEST.json lists it"),
    Attack("rows reordered", backwards, True, 3, "rows.jsonl is not in order"),
    Attack("approval replayed", replayed, False, 3, "approvals/000.json is not as MANIFEST.json"),
    Attack("approval replayed", replayed_on_record, True, 3, "is of another verdict than"),
    Attack("ledger truncated", cut, False, 3, "ledger.jsonl is not as MANIFEST.json lists it"),
    Attack("ledger truncated", cut_and_headed, True, 3, "the ledger has 0 decisions on this"),
    Attack("dated back", dated_back, False, 3, "ledger.jsonl is not as MANIFEST.json lists it"),
    Attack("dated back", dated_back_and_chained, True, 3, "line 2: back-dated"),
    Attack("clock of the bundle set back", clock_set_back, True, 3,
           "the bundle is older than its ledger"),
)  # fmt: skip


@pytest.mark.parametrize(
    "attack", ATTACKS, ids=[f"{a.name}{', all made to fit' * a.fitted}" for a in ATTACKS]
)
def test_the_exit_code_tells_the_attack_and_the_output_its_cause(bundle, tmp_path, attack):
    files = unsigned(bundle, **attack.change(bundle))
    path = tmp_path / "attacked.zip"
    path.write_bytes(repacked(files) if attack.fitted else pack(files))

    done = subprocess.run(
        [sys.executable, "-I", "-S", str(PROGRAM), str(path)],
        cwd=tmp_path, env={"PATH": os.defpath}, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == attack.code, done.stdout
    assert attack.cause in done.stdout
    assert done.stdout.splitlines()[-1] == {3: "TAMPERED", 12: "INVALID"}[attack.code]
