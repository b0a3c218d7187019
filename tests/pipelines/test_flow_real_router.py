"""The flows' looks at the router itself: its states, its spool, its gate, and real requests."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from pipelines.flows.assembling import SpoolRows
from pipelines.flows.router_client import RouterClient, StateMovedError, Target
from pipelines.flows.taking_back import take_back
from specdecode.errors import ConfigError
from specdecode.governance.ladder_actions import Hold, Promote, RollBack, SetState
from specdecode.rollout.settings import Limits
from specdecode.rollout.spool_cache import SegmentCache
from tests.pipelines.releases import MANIFEST, short_plan, world
from tests.rollout.routers import TOKEN, Routing, eventually
from tests.rollout.scripts import replying, routes
from tests.wire.replies import error_reply
from tests.wire.server import WireServer

MAY = ("shadow", "canary", "full")
ENOUGH = {"shadow": 60, "canary 0.25": 260, "canary 0.5": 130, "watch": 60}
FAILING = error_reply(500, "planted")


@contextlib.contextmanager
def released(folder, script=None):
    """A world whose router is the real one, in front of two servers; None: a good candidate."""
    with contextlib.ExitStack() as stack:
        baseline = stack.enter_context(WireServer(routes(replying("hello"))))
        candidate = stack.enter_context(WireServer(routes(script)))
        state = folder / "router"
        salt = folder / "salt"  # so that the same users are the candidate's in every run
        salt.write_bytes(b"s" * 32)
        salt.chmod(0o600)
        router = Routing(
            baseline.url, candidate.url, state, verdict=folder / "gate.json", salt_file=salt
        )
        stack.callback(router.stop)
        own = world(folder, plan=short_plan())
        client = RouterClient(router.url, TOKEN)
        judge = replace(
            own.release().judge,
            rows=SpoolRows(state / "spool", MANIFEST, SegmentCache(folder / "cache")),
        )
        own.changes = {"router": client, "judge": judge}
        own.real = router
        yield own


def ask(own, least=None):
    """Requests of the state that the router is in, by as many users.

    Args:
        own: the world.
        least: rows to wait for; None: one of each arm that a request goes to.
    """
    state = own.real.state
    name = {"full": "watch"}.get(state["mode"], state["mode"])
    name += f" {state['share']:g}" if state["mode"] == "canary" else ""
    before = len(own.real.lines("row"))

    def one(number):
        headers = {"x-specdecode-user": f"{name}-{number}"}
        return own.real.ask(f"{name} {number}", headers=headers, temperature=1.0).status_code

    with ThreadPoolExecutor(4) as pool:
        codes = set(pool.map(one, range(ENOUGH[name])))
    arms = 2 if state["mode"] == "shadow" else 1
    own.real.lines(settled=before + (least or arms * ENOUGH[name]))
    eventually(lambda: at_rest(own.real.health))
    return codes


def at_rest(health):
    """Whether no request and no copy is under way, so that all that will be recorded is."""
    mirror = health["mirror"]
    return not (health["spool"]["in_flight"] or mirror["waiting"] or mirror["in_flight"])


def climbed(own, least=None):
    """Looks and requests in turn, until there is no more to do."""
    codes = set()
    for _ in range(12):
        found = own.look(*MAY)
        if found.ended or found.arrived:
            return found, codes
        if isinstance(found.action, SetState):
            codes |= ask(own, least)
    raise AssertionError(found.action.reason)


def test_a_good_candidate_goes_up_by_what_the_router_recorded(tmp_path):
    with released(tmp_path) as own:
        found, codes = climbed(own)
        assert isinstance(found.action, Promote), found.action.reason
        assert codes == {200}
        assert own.real.state["mode"] == "full"
        ask(own)
        watched = own.look(*MAY)
        gate = own.real.client.get("/gate")
        history = (tmp_path / "router/history.jsonl").read_text().splitlines()

    assert isinstance(watched.action, Hold)
    assert "no alarm" in watched.action.reason
    assert (gate.status_code, gate.json()["stage"]) == (200, "watch")
    assert len(history) == 4


def test_a_candidate_that_fails_is_rolled_back_and_no_user_saw_it(tmp_path):
    with released(tmp_path, FAILING) as own:
        # The router spares a candidate that failed five times in a row; what it saw is enough.
        found, codes = climbed(own, least=2 * Limits().failures)
        gate = own.real.client.get("/gate")
        state = own.real.state

    assert isinstance(found.action, RollBack)
    assert found.place.stage == "shadow"
    assert codes == {200}
    assert (state["mode"], state["share"]) == ("off", 0.0)
    assert gate.status_code == 409


def test_the_router_keeps_to_what_flows_rely_on(tmp_path):
    target = Target("shadow", 0.5, MANIFEST)
    with released(tmp_path) as own:
        client = own.changes["router"]
        first = client.change(0, target, by="flow canary", reason="a test")
        again = client.change(0, target, by="flow canary", reason="a test")
        assert first == again
        with pytest.raises(StateMovedError):
            client.change(0, target, by="another", reason="a test")
        with pytest.raises(ConfigError, match="bearer token"):
            RouterClient(own.real.url, "wrong").change(1, target, by="x", reason="y")
        with pytest.raises(ConfigError, match="422"):
            client.change(1, Target("full", 0.5, MANIFEST), by="x", reason="y")
        read = client.read()
        assert (read.state, read.recording) == (first, True)
        back = take_back(client, manifest_sha256=MANIFEST, by="flow rollback", reason="an alarm")

    assert (back.changed, back.state.mode, back.state.manifest_sha256) == (True, "off", MANIFEST)
