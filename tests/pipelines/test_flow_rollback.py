"""Taking back: again and again until the router is off, or somebody has decided anew."""

from __future__ import annotations

import pytest

from pipelines.flows.router_client import RouterUnreachableError
from pipelines.flows.taking_back import MOST_CONFLICTS, take_back
from tests.pipelines.fake_router import FakeRouter
from tests.pipelines.releases import MANIFEST

OTHER = "b" * 64


def at(mode, share, **fields):
    """A router at that state."""
    router = FakeRouter()
    given = {"manifest_sha256": MANIFEST, "changed_by": "flow canary", "reason": "r"} | fields
    router.set(mode=mode, share=share, **given)
    return router


def back(router, client=None, **fields):
    """Take back MANIFEST, unless told otherwise."""
    given = {"manifest_sha256": MANIFEST, "by": "flow rollback", "reason": "an alarm",
             "wait": lambda _: None} | fields  # fmt: skip
    return take_back(client or router.client(), **given)


@pytest.mark.parametrize(("mode", "share"), [("shadow", 1.0), ("canary", 0.25), ("full", 1.0)],
                         ids=["shadow", "canary", "full"])  # fmt: skip
def test_it_turns_the_router_off_from_any_state_and_twice_is_once(mode, share):
    router = at(mode, share)

    assert back(router).changed
    assert router.state.mode == "off"
    assert router.state.manifest_sha256 == MANIFEST
    assert not back(router).changed
    assert len(router.history) == 2


class Racing:
    """A client whose router is changed by another between reading and writing, some times."""

    def __init__(self, router, times, **state):
        self.router, self.times, self.state = router, times, state
        self.inner = router.client()

    def read(self):
        return self.inner.read()

    def change(self, *args, **kwargs):
        if self.times:
            self.times -= 1
            self.router.set(**self.state)
        return self.inner.change(*args, **kwargs)


def test_it_tries_again_where_a_flow_was_faster():
    router = at("canary", 0.05)
    step = {"mode": "canary", "share": 0.25, "manifest_sha256": MANIFEST,
            "changed_by": "flow canary", "reason": "GO"}  # fmt: skip
    found = back(router, Racing(router, 3, **step), as_of=1)

    assert found.changed
    assert router.went[-2:] == [("canary", 0.25), ("off", 0.0)]


def test_a_person_who_decided_since_is_not_overruled():
    router = at("canary", 0.05)
    step = {"mode": "canary", "share": 0.05, "manifest_sha256": MANIFEST,
            "changed_by": "Ada", "reason": "a false alarm"}  # fmt: skip
    found = back(router, Racing(router, 1, **step), as_of=1)

    assert (found.changed, found.newer) == (False, "Ada has decided since: a false alarm")
    assert router.state.mode == "canary"
    assert back(router).changed  # without as_of only the manifest tells


def test_another_release_that_began_since_is_left_alone():
    router = at("canary", 0.05)
    other = {"mode": "shadow", "share": 1.0, "manifest_sha256": OTHER, "changed_by": "x",
             "reason": "the next one"}  # fmt: skip
    found = back(router, Racing(router, 1, **other))

    assert "the next one" in found.newer
    assert router.state.mode == "shadow"
    assert back(router, manifest_sha256=None).changed


def test_a_router_that_is_away_is_asked_again_for_as_long_as_said():
    router = at("canary", 0.05)
    router.silent = 5
    waits = []
    found = back(router, patience_s=60, wait=waits.append)

    assert found.changed
    assert waits == [0.5, 1.0, 2.0, 4.0, 8.0]
    router = at("canary", 0.05)
    router.silent = 100
    waits.clear()
    with pytest.raises(RouterUnreachableError):
        back(router, patience_s=3, wait=waits.append)
    assert sum(waits) == 3


def test_an_answer_that_was_lost_is_asked_for_and_nothing_is_done_twice():
    router = at("canary", 0.05)
    router.lose_answers = 1

    assert back(router, patience_s=1).state.mode == "off"
    assert router.went == [("canary", 0.05), ("off", 0.0)]


def test_a_state_that_never_stands_still_is_told():
    router = at("canary", 0.05)
    step = {"mode": "canary", "share": 0.25, "manifest_sha256": MANIFEST,
            "changed_by": "flow canary", "reason": "GO"}  # fmt: skip

    with pytest.raises(RouterUnreachableError, match="times in a row"):
        back(router, Racing(router, MOST_CONFLICTS + 1, **step))
