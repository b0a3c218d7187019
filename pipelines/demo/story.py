"""What happens, told to whoever watches: states of the router, verdicts, what users got.

Everything is read from where it is on record: the router's /rollout, the verdict that its /gate
shows, the counts of the replayed traffic. Nothing here decides anything.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import httpx

_READ_S = 10.0
_MODES = {
    "off": "users get the baseline, nothing is under judgement",
    "shadow": "users get the baseline, copies of their requests go to the candidate",
    "canary": "a share of users gets the candidate",
    "full": "all users get the candidate, with the baseline behind it",
}

Outcome = Literal["promoted", "taken back", "held"]


@dataclass(frozen=True)
class Moment:
    """All that can be seen at one moment.

    Attributes:
        state: of the router; None: it does not answer.
        health: of the router.
        verdict: the latest one, with its stage and step; None: there is none.
        traffic: what users got; None: nothing was sent yet.
        judged_at: when the verdict was written, nanoseconds of the file's clock.
    """

    state: Mapping[str, Any] | None = None
    health: Mapping[str, Any] | None = None
    verdict: Mapping[str, Any] | None = None
    traffic: Mapping[str, Any] | None = None
    judged_at: int = 0

    @property
    def mode(self) -> str | None:
        """Of the router; None where it does not answer."""
        return None if self.state is None else str(self.state["mode"])

    @property
    def place(self) -> str | None:
        """What the latest verdict is about: "shadow", "canary 0.05"."""
        if self.verdict is None:
            return None
        step = self.verdict.get("step")
        return str(self.verdict.get("stage")) + ("" if step is None else f" {step}")


def look(router: str, gate: Path, traffic: Path) -> Moment:
    """See what is there now.

    Args:
        router: its address.
        gate: file of the latest verdict.
        traffic: file of the counts.
    """
    state = health = None
    with contextlib.suppress(httpx.HTTPError, ValueError):
        answer = httpx.get(f"{router}/rollout", timeout=_READ_S, trust_env=False)
        document = answer.raise_for_status().json()
        state, health = document["state"], document["health"]
    judged_at = 0
    with contextlib.suppress(OSError):
        judged_at = gate.stat().st_mtime_ns
    return Moment(state, health, _json(gate), _json(traffic), judged_at)


def news(before: Moment, now: Moment) -> list[str]:
    """What is to be told that was not so before, in sentences."""
    told: list[str] = []
    if now.state is None:
        if before.state is not None:
            told.append("the router does not answer")
    elif before.state is None or before.state["version"] != now.state["version"]:
        told.append(_state(now.state))
    if now.health is not None and not now.health["recording"]:
        why = f"the router does not record: {now.health.get('why')}"
        if before.health is None or before.health["recording"]:
            told.append(why)
    if now.verdict is not None and _word(now) != _word(before):
        told.append(_verdict(now))
    return told


def outcome(began: Moment, now: Moment) -> Outcome | None:
    """How it ended, as far as the router's state says; None: it has not.

    Args:
        began: before anything was under judgement.
        now: the present.
    """
    if now.state is None or began.state is None or now.state["version"] == began.state["version"]:
        return None
    return {"full": "promoted", "off": "taken back"}.get(now.state["mode"])  # type: ignore[return-value]


def is_stuck(before: Moment, now: Moment) -> bool:
    """Whether no more requests come, and another look at the same rows has decided nothing.

    Args:
        before: a moment at which there were no more requests already.
        now: a later one.
    """
    return (
        has_fallen_silent(before)
        and before.judged_at < now.judged_at
        and before.place == now.place
        and before.verdict is not None
        and now.verdict is not None
        and now.verdict["status"] == "INCONCLUSIVE"
        and before.verdict["rows"] == now.verdict["rows"]
    )


def has_fallen_silent(now: Moment) -> bool:
    """Whether users have sent all that they will."""
    return now.traffic is not None and not now.traffic["running"]


def summary(now: Moment) -> list[str]:
    """What users got, and what is on record of it."""
    told: list[str] = []
    if (traffic := now.traffic) is not None:
        failed = sum(traffic["failed"].values())
        arms = ", ".join(f"{count} by {arm}" for arm, count in traffic["arms"].items())
        told.append(f"users sent {traffic['sent']} requests; {failed} failed; answered: {arms}")
        if traffic["retried"]:
            told.append(
                f"{traffic['retried']} times the candidate failed and the baseline answered instead"
            )
        if traffic["median_s"] is not None:
            told.append(
                f"a whole reply took {1000 * traffic['median_s']:.0f} ms at the median, "
                f"{1000 * traffic['p99_s']:.0f} ms at the 99th percentile, of the newest ones"
            )
    if now.health is not None:
        spool = ", ".join(f"{name} {count}" for name, count in now.health["spool"].items())
        told.append(f"on record: {spool}")
    return told


def _state(state: Mapping[str, Any]) -> str:
    share = f" {state['share']:.0%}" if state["mode"] in ("shadow", "canary") else ""
    text = f"router: {state['mode']}{share}: {_MODES[state['mode']]}"
    return (
        text if state["version"] == 0 else f"{text}\n    {state['changed_by']}: {state['reason']}"
    )


def _word(moment: Moment) -> tuple[str | None, str | None]:
    status = None if moment.verdict is None else str(moment.verdict["status"])
    return moment.place, status


def _verdict(now: Moment) -> str:
    verdict = now.verdict or {}
    reasons = [f"\n    {reason}" for reason in list(verdict.get("reasons", ()))[:3]]
    return f"verdict of {now.place}: {verdict.get('status')}{''.join(reasons)}"


def _json(path: Path) -> Mapping[str, Any] | None:
    """A document that is replaced whole; None where there is none."""
    with contextlib.suppress(OSError, ValueError):
        document = json.loads(path.read_bytes())
        return document if isinstance(document, dict) else None
    return None
