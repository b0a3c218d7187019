"""What a look does: each act is written down, done, and written down as done, in that order."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import Any

from pipelines.flows.history import RETREATS, history_of
from pipelines.flows.journal import Line
from pipelines.flows.release import Bundle, LostPromotionError, Release
from pipelines.flows.router_client import StateMovedError, Target
from pipelines.flows.taking_back import take_back
from specdecode.errors import ConfigError, EvidenceError, TamperedError
from specdecode.governance.ladder_actions import Action, Hold, Promote, RollBack, SetState, Stop
from specdecode.governance.ladder_facts import Place
from specdecode.governance.verdict import Verdict
from specdecode.rollout.state import STAGE_OF

BROKEN = (OSError, TamperedError, EvidenceError)
"""A journal that cannot be read or written. It keeps a release from going up, never from down."""

Steps = Generator[str, None, Hold | None]
"""Ends with None where the act was done, else with why it was not."""


def carry_out(
    release: Release, place: Place | None, action: Action, verdict: Verdict | None
) -> Steps:
    """Do what the ladder says.

    Raises:
        RouterUnreachableError: nobody knows whether it was done; `settle` finds out.
        ConfigError: the router refuses this flow.
    """
    if isinstance(action, SetState):
        return (yield from _go_up(release, place, action, verdict))
    if isinstance(action, Promote):
        return (yield from _promote(release, place, action, verdict))
    if isinstance(action, RollBack | Stop):
        yield from _go_back(release, place, action, verdict)
    return None


def _go_back(
    release: Release, place: Place | None, action: RollBack | Stop, verdict: Verdict | None
) -> Generator[str, None, None]:
    """Whatever is wrong with the journal, the router is turned off first, and people are told."""
    kind, key = type(action).__name__, release.records.key(place or Place("off"))
    details = {"action": kind, "reason": action.reason, "owner": action.owner}
    trouble: Exception | None = None
    try:
        release.records.journal.write("decided", key, **details)
    except BROKEN as error:
        trouble = error
    yield "decided"
    newer = _turn_off(release, key, action.reason)
    yield "acted"
    if trouble is not None:
        release.tell(place, action, verdict)
        raise trouble
    yield from _taken_back(release, key, details, newer)
    release.tell(place, action, verdict)
    yield "told"
    release.records.journal.write("told", key, action=kind)


def settle(release: Release) -> Generator[str, None, None]:
    """Bring to its end what a run that was killed had begun.

    Raises:
        RouterUnreachableError: the router cannot say whether it was done.
    """
    history = history_of(release.records.journal.lines())
    if history.pending is not None:
        yield from _settle(release, history.pending)
        history = history_of(release.records.journal.lines())
    if history.untold is not None:
        line = history.untold
        release.tell(None, _action_of(line), None)
        yield "told"
        release.records.journal.write("told", line.key, action=line.details["action"])


def _settle(release: Release, line: Line) -> Generator[str, None, None]:
    details, journal = line.details, release.records.journal
    kind = str(details["action"])
    if kind in RETREATS:
        newer = _turn_off(release, line.key, str(details["reason"]))
        yield "acted"
        yield from _taken_back(release, line.key, dict(details), newer)
        return
    state = release.router.read().state
    if kind == "Promote":
        ours = state.mode == "full" and state.manifest_sha256 == release.manifest_sha256
        if ours:
            return  # the ladder goes on with it, unless harm has been seen since
    elif state.version == details["expected_version"] + 1 and _target(release, details).is_of(
        state
    ):
        journal.write("done", line.key, **details, version=state.version)
        yield "done"
        return
    why = f"the router is at version {state.version}, {state.mode} {state.share:g}"
    journal.write("given_up", line.key, **details, because=why)
    yield "given up"


def _go_up(
    release: Release, place: Place | None, action: SetState, verdict: Verdict | None
) -> Steps:
    journal = release.records.journal
    target = Target(action.mode, action.share, release.manifest_sha256)
    step = f"{action.share:g}" if action.mode == "canary" else None
    key = release.records.key(Place(STAGE_OF[action.mode], step))
    kept = None if place is None else release.records.find(place)
    details: dict[str, Any] = {
        "action": "SetState",
        "reason": action.reason,
        "owner": action.owner,
        "mode": action.mode,
        "share": action.share,
        "expected_version": action.expected_version,
        "verdict_sha256": None if kept is None else kept.sha256,
    }
    journal.write("decided", key, **details)
    yield "decided"
    release.judge.withdraw()
    refused = _change(release, key, action.expected_version, target, details)
    if refused is not None:
        return refused
    yield "acted"
    journal.write("done", key, **details, version=action.expected_version + 1)
    yield "done"
    release.tell(place, action, verdict)
    yield "told"
    journal.write("told", key, action="SetState")
    return None


def _change(
    release: Release, key: str, expected: int, target: Target, details: dict[str, Any]
) -> Hold | None:
    """Ask the router; why it refused, or None."""
    journal, reason = release.records.journal, f"{details['reason']} [{key}]"
    try:
        release.router.change(expected, target, by=release.by, reason=reason)
    except StateMovedError as error:
        journal.write("given_up", key, **details, because=str(error))
        return Hold(reason=f"{error}; judged anew at the next look", owner=release.plan.owner)
    except ConfigError as error:
        journal.write("given_up", key, **details, because=str(error))
        raise
    return None


def _turn_off(release: Release, key: str, reason: str) -> str | None:
    """Why the router was left as it is: something newer was decided; None: it is off."""
    found = take_back(
        release.router,
        manifest_sha256=release.manifest_sha256,
        by=release.by,
        reason=f"{reason} [{key}]",
    )
    return found.newer


def _taken_back(
    release: Release, key: str, details: dict[str, Any], newer: str | None
) -> Generator[str, None, None]:
    if release.registry is not None:
        release.registry.demote(str(details["reason"]))
        yield "alias"
    release.records.journal.write("done", key, **details, newer=newer)
    yield "done"


def _promote(
    release: Release, place: Place | None, action: Promote, verdict: Verdict | None
) -> Steps:
    journal, registry = release.records.journal, release.registry
    key = release.records.key(Place(STAGE_OF["full"]))
    begun = history_of(journal.lines()).pending
    details: dict[str, Any] = {
        "action": "Promote",
        "reason": action.reason,
        "owner": action.owner,
        "verdict_sha256": action.verdict_sha256,
        "expected_version": action.expected_version,
        "replaces": None if registry is None else registry.champion(),
    }
    if begun is not None:  # settled only as far as the router: go on with what was decided then
        details |= {"replaces": begun.details["replaces"]}
    journal.write("decided", key, **details)
    yield "decided"
    refuse = partial(_refused, release, place, verdict, key, details)
    try:
        bundle = _bundle(release, action.verdict_sha256)
    except (EvidenceError, TamperedError, ConfigError) as error:
        return (yield from refuse(str(error)))
    yield "bundle"
    target = Target("full", 1.0, release.manifest_sha256)
    if not target.is_of(release.router.read().state):
        release.judge.withdraw()
        refused = _change(release, key, action.expected_version, target, details)
        if refused is not None:
            return refused
    yield "acted"
    if registry is not None:
        try:
            registry.promote(bundle, replaces=details["replaces"])
        except LostPromotionError as error:
            return (yield from refuse(str(error)))
        yield "alias"
    journal.write("done", key, **details, bundle_sha256=bundle.sha256)
    yield "done"
    release.tell(place, action, verdict)
    yield "told"
    journal.write("told", key, action="Promote")
    return None


def _bundle(release: Release, verdict_sha256: str) -> Bundle:
    kept = release.records.find_signed(verdict_sha256)
    if release.evidence is None or kept is None:
        raise EvidenceError(f"there is no bundle of verdict {verdict_sha256[:12]}")
    return release.evidence(kept)


def _refused(  # noqa: PLR0917 - all but the last are bound by the only caller
    release: Release,
    place: Place | None,
    verdict: Verdict | None,
    key: str,
    details: dict[str, Any],
    why: str,
) -> Steps:
    release.records.journal.write("given_up", key, **details, because=why)
    yield "given up"
    held = Hold(reason=f"not promoted: {why}", owner=release.plan.owner, ended=True)
    if history_of(release.records.journal.lines()).held != held.reason:  # people are told once
        release.tell(place, held, verdict)
        yield "told"
        release.records.journal.write("held", key, reason=held.reason, owner=held.owner)
    return held


def _target(release: Release, details: Any) -> Target:
    return Target(details["mode"], float(details["share"]), release.manifest_sha256)


def _action_of(line: Line) -> Action:
    """What was done, as far as people have to know it."""
    own = {"reason": str(line.details["reason"]), "owner": str(line.details["owner"])}
    kind = line.details["action"]
    version = int(line.details.get("expected_version", 0))
    if kind == "SetState":
        mode, share = line.details["mode"], float(line.details["share"])
        return SetState(mode=mode, share=share, expected_version=version, **own)
    if kind == "Promote":
        digest = str(line.details["verdict_sha256"])
        return Promote(verdict_sha256=digest, expected_version=version, **own)
    return RollBack(**own) if kind == "RollBack" else Stop(**own)
