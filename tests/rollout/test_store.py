"""The state on disk: changed by one, at a time, and whole after any end of the process."""

from __future__ import annotations

import json
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from specdecode.errors import ConfigError, UserError
from specdecode.rollout import store as module
from specdecode.rollout.store import StateConflict, StateStore

MANIFEST = "a" * 64
CANARY = {
    "mode": "canary",
    "share": 0.05,
    "manifest_sha256": MANIFEST,
    "changed_by": "flow",
    "reason": "the shadow was GO",
}


@pytest.fixture
def opened(tmp_path):
    stores = []

    def make():
        for store in stores:
            store.close()
        stores.append(StateStore(tmp_path))
        return stores[-1]

    yield make
    for store in stores:
        store.close()


class TestChange:
    def test_the_first_state_is_off(self, opened):
        state = opened().current

        assert (state.version, state.mode, state.share) == (0, "off", 0.0)

    def test_one_version_more_and_on_disk(self, opened, tmp_path):
        state = opened().change(CANARY, 0)

        assert (state.version, state.mode, state.share) == (1, "canary", 0.05)
        assert json.loads((tmp_path / "state.json").read_text())["share"] == 0.05
        assert opened().current == state

    def test_whoever_saw_an_older_version_is_told_the_present_one(self, opened):
        store = opened()
        first = store.change(CANARY, 0)
        with pytest.raises(StateConflict, match="version 1, not 0") as told:
            store.change({**CANARY, "share": 0.25}, 0)

        assert told.value.current == store.current == first

    def test_a_version_that_was_never_there(self, opened):
        with pytest.raises(StateConflict, match="version 0, not 7"):
            opened().change(CANARY, 7)

    def test_the_same_request_again_changes_nothing(self, opened):
        store = opened()
        first = store.change(CANARY, 0)

        assert store.change(CANARY, 0) is first
        assert len(store.history()) == 1

    def test_turned_off_without_a_word_on_the_manifest_it_is_kept(self, opened):
        store = opened()
        store.change(CANARY, 0)
        back = {"mode": "off", "changed_by": "a person", "reason": "it hurts"}
        state = store.change(back, 1)

        assert (state.mode, state.manifest_sha256) == ("off", CANARY["manifest_sha256"])
        assert store.change(back, 1) is state  # sent again after a lost answer

    def test_turned_off_with_none_it_is_taken_out(self, opened):
        store = opened()
        store.change(CANARY, 0)
        words = {"changed_by": "a person", "reason": "done with it"}

        state = store.change({"mode": "off", "manifest_sha256": None, **words}, 1)
        assert state.manifest_sha256 is None

    def test_in_other_modes_it_has_to_be_named(self, opened):
        store = opened()
        store.change(CANARY, 0)
        with pytest.raises(ValidationError, match="manifest_sha256"):
            store.change({name: CANARY[name] for name in CANARY if name != "manifest_sha256"}, 1)

    @pytest.mark.parametrize(
        "other",
        [{"share": 0.25}, {"reason": "another"}, {"changed_by": "somebody"},
         {"manifest_sha256": "b" * 64}],
        ids=["share", "reason", "author", "manifest"],
    )  # fmt: skip
    def test_another_request_with_the_old_version_is_no_repetition(self, opened, other):
        store = opened()
        store.change(CANARY, 0)
        with pytest.raises(StateConflict):
            store.change({**CANARY, **other}, 0)

    def test_what_is_no_state_changes_nothing(self, opened):
        store = opened()
        with pytest.raises(ValidationError, match="manifest_sha256"):
            store.change({**CANARY, "manifest_sha256": None}, 0)

        assert store.current.version == 0

    def test_of_many_at_once_exactly_one_wins(self, opened):
        store = opened()
        won, told = [], []

        def try_it(name):
            with lock:
                try:
                    won.append(store.change({**CANARY, "changed_by": name}, 0))
                except StateConflict as conflict:
                    told.append(conflict.current.changed_by)

        lock = threading.Lock()  # as the router has one
        threads = [threading.Thread(target=try_it, args=(f"flow {i}",)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert len(won) == 1
        assert told == [won[0].changed_by] * 7

    def test_a_disk_that_is_full_leaves_the_state_as_it_was(self, opened, monkeypatch):
        store = opened()
        first = store.change(CANARY, 0)

        def full(*_args, **_options):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(module, "written_whole", full)
        with pytest.raises(OSError, match="No space"):
            store.change({**CANARY, "share": 0.25}, 1)

        assert store.current == first
        assert opened().current == first


class TestHistory:
    @settings(max_examples=25, deadline=None)
    @given(st.lists(st.sampled_from([0.05, 0.25, 0.5, 1.0]), min_size=1, max_size=6), st.data())
    def test_every_change_is_there_in_order(self, tmp_path_factory, shares, data):
        folder = tmp_path_factory.mktemp("state")
        for version, share in enumerate(shares):
            store = StateStore(folder)
            store.change({**CANARY, "share": share}, version)
            if data.draw(st.booleans()):
                store.close()
                store = StateStore(folder)
            history = store.history()
            store.close()

        assert [state.share for state in history] == shares
        assert [state.version for state in history] == list(range(1, len(shares) + 1))

    def test_a_line_that_a_crash_kept_out_is_made_up_for(self, opened, tmp_path):
        store = opened()
        store.change(CANARY, 0)
        store.change({**CANARY, "share": 0.25}, 1)
        history = tmp_path / "history.jsonl"
        history.write_bytes(history.read_bytes().splitlines(keepends=True)[0])

        assert [state.share for state in opened().history()] == [0.05, 0.25]

    @pytest.mark.parametrize("left", [1, 20, -1])
    def test_a_torn_line_is_kept_and_ended(self, opened, tmp_path, left):
        store = opened()
        store.change(CANARY, 0)
        store.change({**CANARY, "share": 0.25}, 1)
        history = tmp_path / "history.jsonl"
        first, second = history.read_bytes().splitlines(keepends=True)
        history.write_bytes(first + second[:left])
        store = opened()
        store.change({**CANARY, "share": 0.5}, 2)

        assert [state.share for state in store.history()] == [0.05, 0.25, 0.5]
        assert history.read_bytes().startswith(first + second[:left])

    def test_a_history_that_cannot_be_written_stops_no_change(self, opened, tmp_path):
        store = opened()
        (tmp_path / "history.jsonl").mkdir()

        assert store.change(CANARY, 0).version == 1


class TestDamage:
    @pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"mode": "canary"}', b"\xff"])
    def test_a_damaged_state_is_mode_off_under_a_new_version(self, opened, tmp_path, content):
        opened().change(CANARY, 0)
        (tmp_path / "state.json").write_bytes(content)
        state = opened().current

        assert (state.mode, state.version, state.changed_by) == ("off", 2, "router")
        assert "could not be read" in state.reason
        assert (tmp_path / "state.damaged-1.json").read_bytes() == content
        assert opened().current == state

    @pytest.mark.parametrize("kept", ["state.good.json", "history.jsonl"])
    def test_it_names_the_last_good_state_and_its_manifest(self, opened, tmp_path, kept):
        # It said neither: whoever waited for the release did not see that it had ended.
        store = opened()
        store.change(CANARY, 0)
        store.change({**CANARY, "share": 0.25}, 1)
        for name in {"state.good.json", "history.jsonl"} - {kept}:
            (tmp_path / name).unlink()
        (tmp_path / "state.json").write_bytes(b"{")
        state = opened().current

        assert (state.mode, state.version, state.manifest_sha256) == ("off", 3, MANIFEST)
        assert "last good state was version 2: canary, share 0.25, by flow" in state.reason

    def test_the_copy_alone_is_not_in_force(self, opened, tmp_path):
        opened().change(CANARY, 0)
        for name in ("state.json", "history.jsonl"):
            (tmp_path / name).unlink()

        assert (opened().current.mode, opened().current.version) == ("off", 2)

    def test_with_nothing_good_left_it_says_so(self, opened, tmp_path):
        (tmp_path / "state.json").write_bytes(b"{")
        state = opened().current

        assert (state.version, state.manifest_sha256) == (1, None)
        assert "no good state is known" in state.reason

    def test_reasons_stay_short_whoever_changed_it(self, opened, tmp_path):
        opened().change({**CANARY, "changed_by": "x" * 500, "reason": "y" * 500}, 0)
        (tmp_path / "state.json").write_bytes(b"[" * 2000)

        assert len(opened().current.reason) <= 500

    def test_a_copy_that_cannot_be_written_stops_no_change(self, opened, tmp_path):
        store = opened()
        (tmp_path / "state.good.json").mkdir()

        assert store.change(CANARY, 0).version == 1
        assert opened().current.version == 1

    def test_a_state_that_is_gone_is_mode_off_under_a_new_version(self, opened, tmp_path):
        opened().change(CANARY, 0)
        (tmp_path / "state.json").unlink()
        state = opened().current

        assert (state.mode, state.version) == ("off", 2)
        assert "gone" in state.reason

    def test_an_old_copy_of_the_state_is_not_taken_for_the_present_one(self, opened, tmp_path):
        store = opened()
        store.change(CANARY, 0)
        old = (tmp_path / "state.json").read_bytes()
        store.change({"mode": "off", "changed_by": "flow", "reason": "NO_GO"}, 1)
        (tmp_path / "state.json").write_bytes(old)
        state = opened().current

        assert (state.mode, state.version) == ("off", 3)

    def test_a_version_that_was_seen_before_the_damage_changes_nothing(self, opened, tmp_path):
        opened().change(CANARY, 0)
        (tmp_path / "state.json").write_bytes(b"{")
        with pytest.raises(StateConflict):
            opened().change({**CANARY, "share": 0.25}, 1)


class TestFolder:
    def test_a_second_router_is_told_where_the_first_one_is(self, opened, tmp_path):
        opened()
        with pytest.raises(UserError, match="belongs to a router that is running"):
            StateStore(tmp_path)

    def test_a_folder_that_cannot_be_made(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(ConfigError, match="cannot hold a router's state"):
            StateStore(tmp_path / "file" / "state")
