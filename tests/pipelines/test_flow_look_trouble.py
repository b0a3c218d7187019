"""A release while routers, disks, registries and other people do as they like."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipelines.flows.history import history_of
from pipelines.flows.journal import AnotherRunError, Journal
from specdecode.errors import ConfigError, EvidenceError, TamperedError
from specdecode.governance.ladder_actions import (
    Hold,
    Promote,
    RollBack,
    SetState,
    Stop,
)
from tests.pipelines.releases import (
    ALL,
    MANIFEST,
    WAY_UP,
    FakeRegistry,
    broken,
    bundle_of,
    harmed,
    lines,
    world,
)


def test_a_router_that_is_away_holds_and_nothing_is_lost(tmp_path):
    own = world(tmp_path)
    own.router.silent = 1
    held = own.look(*ALL)

    assert isinstance(held.action, Hold)
    assert isinstance(own.climb(*ALL).action, Promote)
    assert own.router.went == WAY_UP


def test_an_answer_that_was_lost_is_found_out_and_not_done_again(tmp_path):
    own = world(tmp_path)
    own.router.lose_answers = 1
    held = own.look(*ALL)

    assert isinstance(held.action, Hold)
    assert own.router.went == WAY_UP[:1]
    own.climb(*ALL)
    assert own.router.went == WAY_UP


def test_a_state_that_somebody_else_set_meanwhile_is_not_overwritten(tmp_path):
    own = world(tmp_path)
    own.look(*ALL)
    release = own.release()

    class Late:
        """A router whose state moves on between reading and changing it."""

        def read(self):
            found = release.router.read()
            own.router.set(mode="shadow", share=0.5, manifest_sha256=MANIFEST,
                           changed_by="Ada", reason="half is enough")  # fmt: skip
            return found

        def change(self, *args, **kwargs):
            return release.router.change(*args, **kwargs)

    own.changes = {"router": Late()}
    found = own.look(*ALL)
    assert isinstance(found.action, Hold)
    assert "Ada" in found.action.reason
    assert own.router.state.changed_by == "Ada"
    assert lines(own)[-1][0] == "given_up"
    own.changes = {}
    assert isinstance(own.climb(*ALL).action, Promote)


def test_another_release_on_the_router_is_left_alone(tmp_path):
    own = world(tmp_path)
    own.router.set(mode="canary", share=0.05, manifest_sha256="b" * 64, changed_by="x", reason="y")
    found = own.look(*ALL)

    assert isinstance(found.action, Hold)
    assert len(own.router.history) == 1


def test_what_a_person_turned_off_stays_off_until_they_say_so(tmp_path):
    own = world(tmp_path)
    own.look(*ALL)
    own.router.set(mode="off", share=0.0, changed_by="Ada", reason="I have doubts")
    found = own.look(*ALL)

    assert isinstance(found.action, Hold)
    assert "turned off by Ada" in found.action.reason
    own.changes = {"begin_again": True}
    assert isinstance(own.look(*ALL).action, SetState)


def test_rows_that_were_changed_stop_the_release(tmp_path):
    own = world(tmp_path)
    own.look(*ALL)

    def damaged(_stage):
        raise EvidenceError("rows-00000001.jsonl: is not what its digest says")

    release = own.release()
    own.changes = {"judge": replace(release.judge, rows=damaged)}
    found = own.look(*ALL)

    assert isinstance(found.action, Stop)
    assert "is not what its digest says" in found.action.reason
    assert own.router.state.mode == "off"


def test_two_runs_at_one_release_do_not_meet(tmp_path):
    own = world(tmp_path)

    with own.release().records.journal.alone(), pytest.raises(AnotherRunError, match="another run"):
        own.look(*ALL)


def test_a_bundle_that_does_not_hold_promotes_nothing_and_people_are_told(tmp_path):
    own = world(tmp_path)

    def refused(_kept):
        raise EvidenceError("verify says TAMPERED: rows")

    own.changes = {"evidence": refused}
    found = own.climb(*ALL)

    assert isinstance(found.action, Hold)
    assert "not promoted: verify says TAMPERED" in found.action.reason
    assert own.router.went == WAY_UP[:-1]
    assert own.registry.moves == []
    own.look(*ALL)
    assert own.told.count(("canary 0.5", "Hold")) == 1
    own.changes = {"evidence": bundle_of}  # it was mended
    assert isinstance(own.climb(*ALL).action, Promote)
    assert own.registry.moves == ["2"]


def test_of_two_promotions_the_second_is_told_that_it_lost(tmp_path):
    own = world(tmp_path)

    class Taken(FakeRegistry):
        """A registry in which another version wins while the router is asked."""

        def promote(self, bundle, *, replaces):
            self.current = "7"
            super().promote(bundle, replaces=replaces)

    own.registry = Taken()
    found = own.climb(*ALL)

    assert isinstance(found.action, Hold)
    assert "7 was promoted meanwhile" in found.action.reason
    assert own.registry.current == "7"


def test_a_token_that_the_router_does_not_take_is_told_and_nothing_stays_open(tmp_path):
    own = world(tmp_path)
    own.changes = {"router": own.router.client("wrong")}

    with pytest.raises(ConfigError, match="bearer token"):
        own.look(*ALL)
    assert lines(own)[-1][0] == "given_up"


@pytest.mark.parametrize(
    "trouble", [OSError(28, "No space left on device"), TamperedError("line 2: was changed")],
    ids=["disk full", "tampered"],
)  # fmt: skip
def test_harm_is_taken_back_whatever_is_wrong_with_the_journal(tmp_path, monkeypatch, trouble):
    own = world(tmp_path, truths={"shadow": broken})
    own.look(*ALL)

    def fails(*_args, **_kwargs):
        raise trouble

    monkeypatch.setattr(Journal, "write" if isinstance(trouble, OSError) else "lines", fails)
    if isinstance(trouble, OSError):
        with pytest.raises(OSError, match="No space"):
            own.look(*ALL)
    else:
        assert isinstance(own.look(*ALL).action, RollBack)
    assert own.router.state.mode == "off"
    assert own.told[-1] == ("shadow", "RollBack")


def test_nothing_goes_up_with_a_journal_that_is_broken(tmp_path):
    own = world(tmp_path)
    own.look(*ALL)
    journal = own.release().records.journal.path
    journal.write_bytes(journal.read_bytes().replace(b"shadow begins", b"shadow began!"))

    with pytest.raises(TamperedError, match="line"):
        own.look(*ALL)
    assert own.router.went == WAY_UP[:1]


def test_harm_is_taken_back_with_a_ledger_that_is_broken_and_a_registry_that_is_away(tmp_path):
    own = world(tmp_path)
    own.look(*ALL)
    assert own.look("shadow").judged.on_record  # so that decisions in the ledger would be asked for
    (tmp_path / "ledger.jsonl").write_bytes(b"noise\n")
    with pytest.raises(TamperedError):
        own.look(*ALL)

    class Away(FakeRegistry):
        """A registry that does not answer."""

        def demote(self, reason):
            raise ConnectionError("MLflow is away")

    own.registry = Away()
    own.traffic.more = [row | {"request_id": f"x{i}", "prompt_id": f"x{i // 2}"}
                        for i, row in enumerate(harmed())]  # fmt: skip
    with pytest.raises(ConnectionError):
        own.look(*ALL)
    assert own.router.state.mode == "off"
    own.registry = FakeRegistry()
    assert isinstance(own.look(*ALL).action, Hold)  # it was brought to its end
    assert history_of(own.release().records.journal.lines()).closed is not None


def test_a_gate_file_that_cannot_be_written_hinders_nothing(tmp_path):
    own = world(tmp_path)
    own.look(*ALL)
    judge = replace(own.release().judge, gate=tmp_path / "not-there" / "gate.json")
    own.changes = {"judge": judge}

    assert isinstance(own.look(*ALL).action, SetState)
