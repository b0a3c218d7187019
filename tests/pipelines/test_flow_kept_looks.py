"""Looks that wait for MLflow: on disk, few, and never in the way of who has to act."""

from __future__ import annotations

import fcntl
import json

import pytest

from pipelines.flows import kept_looks
from pipelines.flows.kept_looks import MOST_EARLIER, KeptLooks
from specdecode.governance.ladder_facts import Place
from specdecode.governance.verdict import Outcome, RuleResult, Status, Verdict

SHADOW, CANARY = Place("shadow"), Place("canary", "0.25")
URI = "http://ada:secret@mlflow.example"


def verdict(n=10, status=Status.GO):
    rule = RuleResult(name="error_rate", kind="betting", role="guardrail", arm="block", n=n,
                      outcome=Outcome.PASS, reason="no harm shown", estimate=0.5)  # fmt: skip
    return Verdict(
        status=status, plan_name="p", plan_sha256="a" * 64, claim="c", owner="Ada",
        manifest_sha256=None, rows_sha256=None, rows=n, prompts=n, reasons=[], to_change=[],
        reopen_when=[], overturned_by=[], rules=[rule],
    )  # fmt: skip


@pytest.fixture
def kept(tmp_path):
    return KeptLooks(tmp_path / "pending", URI)


def test_before_the_first_look_there_is_no_folder_and_nothing_waits(kept):
    assert (len(kept), kept.next()) == (0, None)
    assert not kept.folder.exists()


def test_of_a_step_the_last_look_is_kept_with_the_numbers_of_those_before(kept):
    for n in (10, 20, 30):
        kept.keep(verdict(n), "m", SHADOW, "Hold")
    kept.keep(verdict(30, Status.NO_GO), "m", SHADOW, "RollBack")

    [found] = [kept.next()]
    assert len(kept) == 1
    assert (found.act, found.verdict["status"], found.manifest) == ("RollBack", "NO_GO", "m")
    assert [look["rules"][0]["n"] for look in found.earlier] == [10, 20, 30]


def test_steps_come_in_the_order_of_their_last_looks(kept):
    for place in (CANARY, SHADOW, CANARY):
        kept.keep(verdict(), "m", place, "Hold")
    kept.keep(verdict(), "other", SHADOW, "Hold")
    order = []
    while (found := kept.next()) is not None:
        order.append((found.manifest, found.stage, found.step))
        kept.done(found)

    assert order == [("m", "shadow", None), ("m", "canary", "0.25"), ("other", "shadow", None)]


def test_releases_can_be_passed_over(kept):
    for manifest in ("m", "other"):
        kept.keep(verdict(), manifest, SHADOW, "Hold")

    assert kept.next({"m"}).manifest == "other"
    assert kept.next({"m", "other"}) is None


def test_what_is_written_is_gone_but_not_a_look_that_came_meanwhile(kept):
    kept.keep(verdict(10), "m", SHADOW, "Hold")
    written = kept.next()
    kept.keep(verdict(20), "m", SHADOW, "Hold")
    kept.done(written)
    assert kept.next().verdict["rows"] == 20

    kept.done(kept.next())
    assert (len(kept), kept.next()) == (0, None)


def test_however_long_mlflow_is_away_the_folder_stays_small_and_the_newest_are_there(kept):
    for n in range(1, 3 * MOST_EARLIER):
        kept.keep(verdict(n), "m", SHADOW, "Hold")
    steps = [look["rules"][0]["n"] for look in kept.next().earlier]

    assert len(steps) <= MOST_EARLIER
    assert steps[-1] == 3 * MOST_EARLIER - 2
    assert steps == sorted(steps)
    assert steps[0] < MOST_EARLIER


def test_another_store_has_looks_of_its_own_and_no_password_is_written_down(kept, tmp_path):
    kept.keep(verdict(), "m", SHADOW, "Hold")

    assert len(KeptLooks(tmp_path / "pending", "sqlite:///other.db")) == 0
    for path in kept.folder.rglob("*"):
        assert "secret" not in str(path)
        assert b"secret" not in path.read_bytes()


@pytest.mark.parametrize("content", [b"", b"[]", b"{", json.dumps({"stage": "x"}).encode()])
def test_a_file_that_nobody_can_read_is_passed_over_and_written_anew(kept, content):
    kept.keep(verdict(), "m", SHADOW, "Hold")
    kept.next().path.write_bytes(content)
    assert kept.next() is None
    assert len(kept) == 1  # so it is told that something waits

    kept.keep(verdict(20), "m", SHADOW, "Hold")
    assert kept.next().verdict["rows"] == 20


def test_who_was_stopped_while_changing_the_folder_holds_nobody_up(kept, monkeypatch):
    kept.keep(verdict(), "m", SHADOW, "Hold")
    monkeypatch.setattr(kept_looks, "_PATIENCE_S", 0.0)
    with (kept.folder / "changing.lock").open("a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(BlockingIOError):
            kept.keep(verdict(), "m", CANARY, "RollBack")
