"""A release, and all that a flow needs to take it one step further."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from pipelines.flows.approvals import People
from pipelines.flows.judging import Judge
from pipelines.flows.records import OnRecord, Records
from pipelines.flows.taking_back import RouterPort
from specdecode.governance.ladder_actions import Action
from specdecode.governance.ladder_facts import Place
from specdecode.governance.plan_schema import Plan
from specdecode.governance.timestamps import utc_now
from specdecode.governance.verdict import Verdict


@dataclass(frozen=True)
class Bundle:
    """An evidence bundle that was verified.

    Attributes:
        path: the archive.
        sha256: of its bytes.
        plan_sha256: of its plan.
        verdict_sha256: of its verdict, which is GO.
        manifest_sha256: of its inputs.
    """

    path: Path
    sha256: str
    plan_sha256: str
    verdict_sha256: str
    manifest_sha256: str


class Registry(Protocol):
    """Where consumers look which version is the champion; `registry.MlflowRegistry` is one."""

    def champion(self) -> str | None:
        """The version that is champion now; None where there is none."""

    def promote(self, bundle: Bundle, *, replaces: str | None) -> None:
        """Make this release's version champion, if that is still the one it replaces.

        Doing it twice is doing it once.

        Raises:
            LostPromotionError: another version was made champion meanwhile.
        """

    def demote(self, reason: str) -> None:
        """Put back the champion that this release's version replaced, if it is champion."""


class LostPromotionError(Exception):
    """Another version was made champion first."""


Evidence = Callable[[OnRecord], Bundle]
"""Makes the bundle of a verdict on record, or finds it, and verifies it.

Raises EvidenceError, TamperedError or ConfigError where it does not hold.
"""

Tell = Callable[[Place | None, Action, Verdict | None], None]
"""Tells people and automations; a failure of it must not come out."""


def _to_nobody(_place: Place | None, _action: Action, _verdict: Verdict | None) -> None:
    """Shows nothing."""


@dataclass(frozen=True)
class Release:
    """One release.

    Attributes:
        plan: as written.
        manifest_sha256: what is released.
        router: who gets what.
        judge: verdicts from what it records.
        records: what is kept of it, with the journal.
        people: whose signatures count.
        tell: whom to tell.
        show: who shows that users get plain decoding again, before it is done: the rest of such a
            look may fail, and then nobody would hear what it came to.
        evidence: bundles for the promotion; None: there is no promotion.
        registry: where the champion is named; None: nowhere.
        by: who acts, as the router records it.
        shadow_share: of requests that a shadow copies.
        begin_again: a person asks for it, after the router was turned off by someone.
        clock: the time.
    """

    plan: Plan
    manifest_sha256: str
    router: RouterPort
    judge: Judge
    records: Records
    people: People
    tell: Tell
    evidence: Evidence | None = None
    registry: Registry | None = None
    by: str = "flow"
    shadow_share: float = 1.0
    begin_again: bool = False
    show: Tell = _to_nobody
    clock: Callable[[], datetime] = utc_now
