"""What users got, held against what was recorded: of every request there is one end on record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.soak.rule import Check
from specdecode.errors import EvidenceError
from specdecode.measurement.records import RECORD_SCHEMA
from specdecode.rollout.spool_lines import WITHOUT_ROW
from specdecode.rollout.spool_reader import read_spool, spool_errors
from specdecode.rollout.spool_snapshot import Snapshot
from specdecode.statistics.sample_ratio import sample_ratio_test

BASELINE, CANDIDATE = "plain", "block"
ALPHA: Final = 0.001
"""Level of the sample-ratio test: a sound router fails one soak of a thousand."""


@dataclass
class Users:
    """What users saw; both kinds of users together.

    Attributes:
        sent: requests, `leaving` among them.
        whole: replies that were whole, by the arm that gave them.
        retried: of these, given by the baseline after the candidate had failed.
        failed: replies that were not whole though their user stayed.
        leaving: requests of users who went before the end.
        unanswered: of users who were to leave, those who got nothing at all.
    """

    sent: int = 0
    whole: Counter[str] = field(default_factory=Counter)
    retried: int = 0
    failed: int = 0
    leaving: int = 0
    unanswered: int = 0

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {**vars(self), "whole": dict(sorted(self.whole.items()))}


@dataclass(frozen=True)
class Kept:
    """What the router kept.

    Attributes:
        rows: of the spool, all that count.
        ended: requests that ended without a row, by kind.
        health: what the router said last; None if it did not answer.
        faults: what is wrong with the spool.
    """

    rows: pa.Table
    ended: Counter[str]
    health: Mapping[str, Any] | None
    faults: tuple[str, ...] = ()


def kept_in(spool: Path, health: Mapping[str, Any] | None) -> Kept:
    """Read a spool whose router has ended; one that cannot be read is a fault, and has no rows."""
    try:
        rows = read_spool(spool, settled=False)
        ended = Counter(line["kind"] for line in Snapshot(spool).lines(*sorted(WITHOUT_ROW)))
    except EvidenceError as error:
        return Kept(RECORD_SCHEMA.empty_table(), Counter(), health, (str(error),))
    return Kept(rows, ended, health, tuple(spool_errors(spool)))


def account(users: Users, kept: Kept, share: float) -> list[Check]:
    """Hold one against the other.

    Args:
        users: what they saw.
        kept: what was recorded.
        share: of requests that the candidate was to answer.
    """
    return [
        _none_lost(users, kept),
        _once_each(kept),
        _successes(users, kept),
        _errors(users, kept),
        _sound(kept),
        _ratio(kept, share),
    ]


def spilled(kept: Kept) -> int:
    """Requests that the candidate's limits sent to the baseline, which are no rows."""
    return 0 if kept.health is None else sum(kept.health["candidate"]["spilled"].values())


def _none_lost(users: Users, kept: Kept) -> Check:
    rows, ended, over = kept.rows.num_rows, kept.ended.total(), spilled(kept)
    kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(kept.ended.items()))
    return Check(
        "no row lost",
        users.sent == rows + ended + over and rows > 0 and not users.unanswered,
        f"{users.sent} sent, {rows} rows, {kinds or 'none without a row'}, {over} spilled, "
        f"{users.unanswered} unanswered",
        "sent = rows + ends without a row + spilled; nobody unanswered",
    )


def _once_each(kept: Kept) -> Check:
    rows = kept.rows.num_rows
    distinct = pc.count_distinct(kept.rows.column("prompt_id")).as_py()
    return Check(
        "one row each", rows == distinct, f"{rows} rows of {distinct} requests", "as many requests"
    )


def _successes(users: Users, kept: Kept) -> Check:
    """Per arm; some who leave have got everything before, so there may be that many more."""
    good = kept.rows.filter(pc.is_null(kept.rows.column("error")))
    found, passed = [], True
    for arm in (BASELINE, CANDIDATE):
        rows = good.filter(pc.equal(good.column("arm"), pa.scalar(arm))).num_rows
        over = users.retried + spilled(kept) if arm == BASELINE else 0
        least, most = users.whole[arm] - over, users.whole[arm] - over + users.leaving
        passed = passed and least <= rows <= most
        found.append(f"{arm}: {rows} rows for {users.whole[arm] - over} whole replies")
    return Check(
        "successes",
        passed,
        "; ".join(found),
        f"a row for each whole reply, and at most {users.leaving} more, of those who left late",
    )


def _errors(users: Users, kept: Kept) -> Check:
    failed = kept.rows.num_rows - kept.rows.column("error").null_count
    known = users.retried + users.failed
    return Check(
        "errors",
        known <= failed <= known + users.leaving,
        f"{failed} rows with an error for {users.failed} failures that users saw and "
        f"{users.retried} that the baseline made good",
        f"a row for each, and at most {users.leaving} more, of those who left",
    )


def _sound(kept: Kept) -> Check:
    """Nothing that the router itself counts as wrong."""
    health = kept.health
    if health is None:
        return Check("record", False, "the router did not say how it is", "a router that answers")
    numbers = {
        "lost": health["spool"]["lost"],
        "unrecorded": health["unrecorded"],
        "ahead of the record": health["ahead_of_record"],
        "counted, not in the spool": health["spool"]["recorded"] - kept.rows.num_rows,
    }
    wrong = [f"{name}: {number}" for name, number in numbers.items() if number]
    wrong += kept.faults
    if not health["recording"]:
        wrong.append(f"it does not record: {health['why']}")
    return Check("record", not wrong, "; ".join(wrong) or "sound", "nothing lost, nothing damaged")


def _ratio(kept: Kept, share: float) -> Check:
    rows = kept.rows.sort_by("order_index")
    arms = np.array([arm == CANDIDATE for arm in rows.column("arm").to_pylist()], dtype=np.int64)
    wanted = f"{share:.0%} at the candidate, by the sequential test at {ALPHA:g}"
    if not len(arms):
        return Check("sample ratio", False, "no rows", wanted)
    at = sample_ratio_test(arms, [1 - share, share], alpha=ALPHA).rejected_at
    said = "" if at is None else f"; rejected at request {at}"
    return Check("sample ratio", at is None, f"{arms.mean():.1%} of {len(arms)}{said}", wanted)
