"""Give users plain decoding again: turn a router off, whoever else is changing it meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from pipelines.flows.router_client import RouterUnreachableError, StateMovedError, Target
from specdecode.governance.ladder_facts import Router
from specdecode.rollout.state import RolloutState

FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 10.0
MOST_CONFLICTS = 100
"""Changes by others that came first; so many in a row are a fault of whoever makes them."""

FLOWS = "flow "
"""How `changed_by` begins where a flow made the change, and not a person."""


class RouterPort(Protocol):
    """What a flow needs of a router; `router_client.RouterClient` has it."""

    def read(self) -> Router:
        """Its state, and whether it records."""

    def change(
        self, expected_version: int, target: Target, *, by: str, reason: str
    ) -> RolloutState:
        """The new state, if the one that was seen is still there."""


@dataclass(frozen=True)
class TakenBack:
    """How it ended.

    Attributes:
        state: of the router now.
        changed: whether this call turned it off; it may have been off already.
        newer: why it was left as it is: something newer was decided; None: it is off.
    """

    state: RolloutState
    changed: bool
    newer: str | None = None


def take_back(
    router: RouterPort,
    *,
    manifest_sha256: str | None,
    by: str,
    reason: str,
    as_of: int | None = None,
    patience_s: float = 0.0,
    wait: Callable[[float], None] = time.sleep,
) -> TakenBack:
    """Turn the router off. Doing it twice is doing it once.

    Args:
        router: to be turned off.
        manifest_sha256: of the release that is taken back; another one under way is left alone.
            None takes back whatever is there.
        by: who.
        reason: why.
        as_of: version of the state that called for this. A person who has set another since
            then has decided with newer knowledge, and is not overruled; a flow is. None: no person
            is known to have.
        patience_s: for how long a router that does not answer is asked again.
        wait: sleeps; for tests.

    Raises:
        RouterUnreachableError: it did not answer for that long, or its state never stood still.
        ConfigError: the router refuses this caller.
    """
    waited, pause = 0.0, FIRST_WAIT_S
    for _ in range(MOST_CONFLICTS):
        try:
            state = router.read().state
            if state.mode == "off":
                return TakenBack(state, changed=False)
            if newer := _newer(state, manifest_sha256, as_of):
                return TakenBack(state, changed=False, newer=newer)
            target = Target("off", 0.0, state.manifest_sha256)
            return TakenBack(
                router.change(state.version, target, by=by, reason=reason), changed=True
            )
        except StateMovedError:
            continue  # somebody was faster: look at what they set
        except RouterUnreachableError:
            if waited >= patience_s:
                raise
            pause = min(pause, patience_s - waited)
            wait(pause)
            waited, pause = waited + pause, min(2 * pause, LONGEST_WAIT_S)
    raise RouterUnreachableError(
        f"the router's state was changed by others {MOST_CONFLICTS} times in a row; find out who "
        "changes it, and run the flow rollback again"
    )


def _newer(state: RolloutState, manifest_sha256: str | None, as_of: int | None) -> str | None:
    if manifest_sha256 is not None and state.manifest_sha256 != manifest_sha256:
        return f"another release is under way, set by {state.changed_by}: {state.reason}"
    if as_of is not None and state.version > as_of and not state.changed_by.startswith(FLOWS):
        return f"{state.changed_by} has decided since: {state.reason}"
    return None
