"""Starts one flow after the other, as a person would on Prefect's pages, and tells the story."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from pipelines.console import say
from pipelines.demo.story import Moment, Outcome, has_fallen_silent, is_stuck, news, outcome
from specdecode.errors import EngineError

FLOWS = (("shadow/shadow", 1800.0), ("canary/canary", 7200.0))
"""Deployments in their order, and for how many seconds each may go on looking."""
WATCH = "watch/watch"
_LOOK_S = 1.0
_WATCHES = 30

Look = Callable[[], Moment]
Tell = Callable[[str], object]


class Flows:
    """Runs of deployments on the Prefect server that the environment names.

    Args:
        every_s: seconds between two looks of a flow at its release.
        approval: deployment that waits for signatures; None: they are made beside the verdict.
    """

    def __init__(self, every_s: float = 2.0, approval: str | None = None) -> None:
        self._every_s, self._approval = every_s, approval

    def start(self, deployment: str, for_s: float) -> str:
        """Start a run; returns its id."""
        from prefect.deployments import run_deployment

        parameters: dict[str, Any] = {}
        if deployment != WATCH:
            parameters = {"for_s": for_s, "every_s": self._every_s}
        if deployment.startswith("canary/"):
            parameters["approval"] = self._approval
        run: Any = run_deployment(deployment, parameters=parameters, timeout=0, as_subflow=False)
        return str(run.id)

    def state(self, run_id: str) -> tuple[bool, str]:
        """Whether a run has ended, and how it is."""
        from prefect.client.orchestration import get_client

        with get_client(sync_client=True) as client:
            state = client.read_flow_run(run_id).state  # type: ignore[arg-type]  # text will do
        if state is None:
            return False, "not scheduled yet"
        return state.is_final(), f"{state.name}" + (f": {state.message}" if state.message else "")


def drive(flows: Flows, look: Look, tell: Tell = say) -> Outcome:
    """Take the release as far as it goes, telling what happens.

    Args:
        flows: starts and asks for runs.
        look: sees what is there.
        tell: gets each sentence.

    Returns:
        How it ended. "held": nobody took it back, and it does not go on either.

    Raises:
        EngineError: a run of a flow failed.
    """
    began = look()
    seen = began
    for deployment, for_s in FLOWS:
        tell(f"flow {deployment.partition('/')[0]} is started")
        run_id = flows.start(deployment, for_s)
        silent: Moment | None = None
        for now in _moments(look, seen, tell):
            seen = now
            if (found := outcome(began, now)) is not None:
                return found
            ended, how = flows.state(run_id)
            if ended:
                if not how.startswith("Completed"):
                    raise EngineError(f"the run of {deployment} did not end well: {how}")
                break
            if silent is not None and is_stuck(silent, now):
                return "held"
            if has_fallen_silent(now) and (silent is None or now.judged_at > silent.judged_at):
                silent = now
        seen = look()
        if (found := outcome(began, seen)) is not None:
            return found
        if seen.verdict is None or seen.verdict["status"] != "GO":
            return "held"
    return "held"


def watch(flows: Flows, look: Look, tell: Tell = say) -> Outcome:
    """Look after all users have the candidate, until the stage watch says something.

    Returns:
        "promoted" where there is no alarm, "taken back" where there was one.
    """
    began = seen = look()
    for _ in range(_WATCHES):
        run_id = flows.start(WATCH, 0.0)
        for now in _moments(look, seen, tell):
            seen = now
            if flows.state(run_id)[0]:
                break
        if seen.mode == "off" and began.mode != "off":
            return "taken back"
        verdict = seen.verdict or {}
        if verdict.get("stage") == "watch" and verdict["status"] == "GO":
            break
    return "promoted"


def _moments(look: Look, seen: Moment, tell: Tell) -> Iterator[Moment]:
    """One moment a second; what is new is told."""
    while True:
        now = look()
        for sentence in news(seen, now):
            tell(sentence)
        yield now
        seen = now
        time.sleep(_LOOK_S)
