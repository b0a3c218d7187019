"""While requests are in flight only those rows are judged that nothing to come can change."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest

from specdecode.governance import decide
from specdecode.governance.stage_of_rows import of_spool
from specdecode.governance.verdict import Status
from specdecode.measurement.records import Record
from specdecode.rollout.spool import Spool
from specdecode.rollout.spool_reader import Selection, SpoolSource, read_spool
from specdecode.rollout.spool_settled import ABANDONED
from tests.governance.live.streams import CANARY, SHADOW, WATCH, live_plan, shadow
from tests.rollout.factories import CANARY as CANARY_STATE
from tests.rollout.factories import SHADOW as SHADOW_STATE
from tests.rollout.factories import START, asked, record

PLAN = live_plan(*[each | {"metrics": ["error_rate", "e2e_s"]} for each in (SHADOW, CANARY, WATCH)])


def at(second, arm="plain", state=CANARY_STATE):
    return asked(second, arm, state) | {"started_at": START + timedelta(seconds=second)}


def row(second, arm="plain", state=CANARY_STATE):
    when = START + timedelta(seconds=second)
    return record(second, arm, state).model_copy(update={"started_at": when})


def seconds(folder, **options):
    return sorted(read_spool(folder, **options).column("order_index").to_pylist())


def test_rows_wait_for_every_request_that_began_before_them(tmp_path):
    with Spool(tmp_path) as spool:
        for second in range(5):
            spool.begin(at(second))
        for second in (0, 1, 3, 4):
            spool.append(row(second))
        spool.flush()

        assert seconds(tmp_path) == [0, 1]
        assert seconds(tmp_path, settled=False) == [0, 1, 3, 4]
        assert SpoolSource(tmp_path, Selection(stage="canary")).rows == 2

        spool.append(row(2))
        spool.flush()
        assert seconds(tmp_path) == [0, 1, 2, 3, 4]


def test_half_a_pair_waits_for_the_other_and_holds_nothing_else_up(tmp_path):
    with Spool(tmp_path) as spool:
        for second in range(3):
            spool.begin(at(second, state=SHADOW_STATE))
            partner = row(second, state=SHADOW_STATE)
            spool.queued(at(second, "block", SHADOW_STATE), partner.request_id)
            spool.append(partner)
        for second in (0, 2):  # the copy of the second one waits
            spool.begin(at(second, "block", SHADOW_STATE))
            spool.append(row(second, "block", SHADOW_STATE))
        spool.flush()

        assert seconds(tmp_path) == [0, 0, 2, 2]
        copy = at(1, "block", SHADOW_STATE)["request_id"]
        spool.without_row("shed", copy, "old", retract=[row(1, state=SHADOW_STATE).request_id])
        spool.flush()
        assert seconds(tmp_path) == [0, 0, 2, 2]


@pytest.mark.parametrize("segment_rows", [2, 1000])
def test_a_pair_whose_copy_began_after_the_oldest_in_flight_waits_as_a_whole(
    tmp_path, segment_rows
):
    """Of a deferred copy: one half would be before that request, and the other behind it."""
    with Spool(tmp_path, segment_rows=segment_rows) as spool:
        first = row(0, state=SHADOW_STATE)
        spool.begin(at(0, state=SHADOW_STATE))
        spool.queued(at(0, "block", SHADOW_STATE), first.request_id)
        spool.begin(at(1, state=SHADOW_STATE))  # is slow
        spool.append(first)
        later = at(2, state=SHADOW_STATE)["started_at"]
        spool.begin({**at(0, "block", SHADOW_STATE), "started_at": later})
        copy = row(0, "block", SHADOW_STATE)
        spool.append(copy.model_copy(update={"started_at": row(2).started_at}))
        spool.flush()

        assert seconds(tmp_path) == []
        assert len(seconds(tmp_path, settled=False)) == 2
        assert SpoolSource(tmp_path, Selection(stage="shadow")).rows == 0
        spool.append(row(1, state=SHADOW_STATE))
        spool.flush()
        assert len(seconds(tmp_path)) == 3


@pytest.mark.parametrize("segment_rows", [2, 1000])
def test_what_a_look_has_read_never_changes(tmp_path, segment_rows):
    """Random traffic, where requests end in any order, looked at after each step."""
    draw = random.Random(4)  # noqa: S311 - a seed, no secret
    before, flying = [], []
    with Spool(tmp_path, segment_rows=segment_rows, sync_s=0.0) as spool:
        for second in range(60):
            spool.begin(at(second))
            flying.append(second)
            while flying and draw.random() < 0.55:
                spool.append(row(flying.pop(draw.randrange(len(flying)))))
            spool.flush()
            found = seconds(tmp_path)
            assert found[: len(before)] == before
            assert found == list(range(len(found)))
            before = found
    assert len(seconds(tmp_path)) == 60


def test_a_row_without_a_time_is_left_to_the_gate_to_refuse(tmp_path):
    with Spool(tmp_path) as spool:
        spool.begin(at(5))
        spool.append(row(1).model_copy(update={"started_at": None}))
        spool.append(row(6))
        spool.flush()

        assert seconds(tmp_path) == [1]


def test_a_request_that_was_forgotten_holds_up_for_an_hour_and_no_longer(tmp_path):
    late = int(ABANDONED.total_seconds())
    with Spool(tmp_path) as spool:
        spool.begin(at(0))
        for second in (1, late, late + 1):
            spool.begin(at(second))
            spool.append(row(second))
            spool.flush()
            expected = [] if second <= late else [1, late, late + 1]
            assert seconds(tmp_path) == expected


def test_a_shadow_whose_copies_wait_is_not_taken_for_one_that_lacks_them(tmp_path):
    rows = [Record.model_validate(each) for each in shadow(300)]
    with Spool(tmp_path) as spool:
        for place, each in enumerate(rows):
            if each.arm == "block" and place > 400:
                partner = each.request_id.replace("/block", "/plain")
                spool.queued(each.model_dump(include=set(at(0))), partner)
            else:
                spool.append(each)
        spool.flush()

        verdict = decide(*of_spool(PLAN, tmp_path))
        everything = decide(PLAN.at("shadow"), read_spool(tmp_path, settled=False))
    assert verdict.status is Status.GO, verdict.reasons
    assert verdict.rows == 400
    assert everything.status is Status.INVALID
