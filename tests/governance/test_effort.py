"""What a plan took: counted and timed from the lines of a ledger, and nothing from elsewhere."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdecode.governance.approvals import record_approval, sign_approval
from specdecode.governance.chain import EMPTY_HEAD, Chain, Entry
from specdecode.governance.effort import Effort, effort, effort_by_plan
from specdecode.governance.ledger import Ledger
from specdecode.governance.timestamps import utc_text
from tests.governance.keys import ADA, GRACE, HOUR, NOW

PLAN, OTHER = "a" * 64, "b" * 64
FIRST, SECOND, UNLISTED = "1" * 64, "2" * 64, "3" * 64
H = 3600.0


def ledger(*lines):
    """Entries of (hours from the start, kind, body)."""
    entries = []
    for hours, kind, body in lines:
        head = entries[-1].sha256 if entries else EMPTY_HEAD
        at = utc_text(NOW + timedelta(hours=hours))
        entries.append(Entry.following(Chain(tuple(entries), head, None), kind, at, body))
    return entries


def sealed(hours, plan=PLAN):
    return (hours, "seal", {"plan_sha256": plan, "seal_sha256": "c" * 64})


def amended(hours, plan=PLAN):
    return (hours, "amendment", {"plan_sha256": plan})


def reached(hours, status, digest, plan=PLAN):
    body = {"plan_sha256": plan, "verdict_sha256": digest, "status": status}
    return (hours, "verdict", body)


def decided(hours, decision, digest):
    kind = "override" if decision == "override" else "approval"
    return (hours, kind, {"verdict_sha256": digest, "decision": decision})


def test_a_ledger_without_such_lines_is_no_effort():
    assert effort([], PLAN) == Effort()
    others = ledger(sealed(0, OTHER), amended(1, OTHER), reached(2, "GO", FIRST, OTHER),
                    decided(3, "approve", FIRST))  # fmt: skip
    assert effort(others, PLAN) == Effort()
    assert effort(others, PLAN, verdict_sha256=SECOND) == Effort()
    assert Effort().holds == 0


def test_times_run_from_seal_to_verdict_and_from_there_to_each_decision():
    found = effort(
        ledger(
            sealed(0),
            reached(2, "INCONCLUSIVE", FIRST),
            amended(3),
            reached(5, "GO", SECOND),
            decided(6, "approve", SECOND),
            decided(7.5, "reject", SECOND),
            decided(8, "override", FIRST),
        ),
        PLAN,
    )

    assert (found.seals, found.amendments, found.holds) == (1, 1, 1)
    held, go = found.verdicts
    assert (held.status, held.since_seal_s) == ("INCONCLUSIVE", 2 * H)
    assert (go.status, go.since_seal_s) == ("GO", 5 * H)
    assert [(d.decision, d.since_verdict_s, d.since_seal_s) for d in go.decisions] == [
        ("approve", H, 6 * H),
        ("reject", 2.5 * H, 7.5 * H),
    ]
    assert [(d.decision, d.since_verdict_s) for d in held.decisions] == [("override", 6 * H)]
    assert (held.last_decision_s, go.last_decision_s) == (6 * H, 2.5 * H)
    assert found.decisions == ()


def test_a_plan_sealed_again_counts_from_its_newest_seal():
    found = effort(ledger(sealed(0), reached(1, "NO_GO", FIRST), sealed(4),
                          reached(4.5, "GO", SECOND)), PLAN)  # fmt: skip

    assert found.seals == 2
    assert [verdict.since_seal_s for verdict in found.verdicts] == [H, 0.5 * H]
    assert [verdict.last_decision_s for verdict in found.verdicts] == [None, None]


def test_what_came_before_the_seal_or_the_verdict_has_no_time_from_it():
    found = effort(ledger(decided(0, "approve", FIRST), reached(1, "GO", FIRST), sealed(2)), PLAN)

    assert found.verdicts[0].since_seal_s is None
    assert found.verdicts[0].decisions == ()
    assert [(d.since_verdict_s, d.since_seal_s) for d in found.decisions] == [(None, None)]


def test_a_verdict_without_a_line_has_decisions_but_no_time_from_it():
    entries = ledger(sealed(0), decided(3, "approve", UNLISTED))

    assert effort(entries, PLAN).decisions == ()
    [decision] = effort(entries, PLAN, verdict_sha256=UNLISTED).decisions
    assert (decision.since_verdict_s, decision.since_seal_s) == (None, 3 * H)


def test_a_verdict_recorded_twice_has_each_decision_once_at_the_newer_line():
    found = effort(ledger(reached(0, "GO", FIRST), decided(1, "approve", FIRST),
                          reached(2, "GO", FIRST), decided(5, "approve", FIRST)), PLAN)  # fmt: skip

    assert [[d.since_verdict_s for d in v.decisions] for v in found.verdicts] == [[H], [3 * H]]


@pytest.mark.parametrize(
    "body", [{}, {"plan_sha256": PLAN}, {"verdict_sha256": None}, {"verdict_sha256": []}]
)
@pytest.mark.parametrize("kind", ["verdict", "approval", "override", "amendment", "seal"])
def test_a_line_that_lacks_something_breaks_nothing(kind, body):
    found = effort(ledger((0, kind, body)), PLAN)
    json.dumps(found.to_json(), allow_nan=False)
    assert found.decisions == ()


def test_plans_are_told_apart_and_keep_the_order_of_their_seals():
    entries = ledger(sealed(0, OTHER), sealed(1), amended(2, OTHER), sealed(3, OTHER))
    found = effort_by_plan(entries)

    assert list(found) == [OTHER, PLAN]
    assert found[OTHER] == effort(entries, OTHER) == Effort(seals=2, amendments=1)
    assert effort_by_plan([]) == {}


def test_decisions_as_they_are_really_recorded_are_found(tmp_path):
    book = Ledger(tmp_path / "ledger.jsonl", clock=lambda: NOW + 3 * HOUR)
    body = {"plan_sha256": PLAN, "verdict_sha256": FIRST, "status": "GO"}
    book.append("verdict", body, at=NOW)
    for key, decision, reason in ((ADA, "approve", None), (GRACE, "override", "it must ship")):
        envelope = sign_approval(FIRST, decision, "owner", key, at=NOW, expires_days=9,
                                 reason=reason)  # fmt: skip
        record_approval(envelope, book)
    [verdict] = effort(book.entries(), PLAN).verdicts

    assert [(d.decision, d.since_verdict_s) for d in verdict.decisions] == [
        ("approve", 3 * H),
        ("override", 3 * H),
    ]


LINES = st.one_of(
    st.builds(sealed, st.just(0), st.sampled_from([PLAN, OTHER])),
    st.builds(amended, st.just(0), st.sampled_from([PLAN, OTHER])),
    st.builds(reached, st.just(0), st.sampled_from(["GO", "INCONCLUSIVE"]),
              st.sampled_from([FIRST, SECOND]), st.just(PLAN)),
    st.builds(decided, st.just(0), st.sampled_from(["approve", "override"]),
              st.sampled_from([FIRST, SECOND])),
)  # fmt: skip


@given(st.lists(st.tuples(st.integers(0, 50), LINES), max_size=12))
def test_every_line_is_counted_once_and_no_time_runs_backwards(drawn):
    hours, lines = 0, []
    for step, (_, kind, body) in drawn:
        hours += step
        lines.append((hours, kind, body))
    entries = ledger(*lines)
    found = effort(entries, PLAN)

    def count(*kinds):
        return sum(e.kind in kinds and e.body.get("plan_sha256", PLAN) == PLAN for e in entries)

    known = {e.body["verdict_sha256"] for e in entries if e.kind == "verdict"}
    decisions = [d for v in found.verdicts for d in v.decisions] + list(found.decisions)
    assert (found.seals, found.amendments) == (count("seal"), count("amendment"))
    assert len(found.verdicts) == count("verdict")
    assert len(decisions) == sum(
        e.kind in ("approval", "override") and e.body["verdict_sha256"] in known for e in entries
    )
    times = [v.since_seal_s for v in found.verdicts]
    times += [t for d in decisions for t in (d.since_verdict_s, d.since_seal_s)]
    assert all(t is None or t >= 0 for t in times)
