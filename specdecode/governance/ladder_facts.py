"""What the ladder has to know: the router's answer, the verdict of a step, people's decisions."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from specdecode.governance.canonical import canonical_bytes, sha256_hex
from specdecode.governance.dsse import Envelope
from specdecode.governance.live.scope import step_of
from specdecode.governance.plan import plan_sha256
from specdecode.governance.plan_schema import Plan
from specdecode.governance.signers import Signers
from specdecode.governance.verdict import RuleResult, Status, Verdict
from specdecode.rollout.state import RolloutState

_STEP = "step="

LEAST_SENT = 0.5
"""Share of the expected copies below which what was sent is a choice, whatever its rows say."""


@dataclass(frozen=True)
class Place:
    """A stage of the plan, and of a canary the step, as rows name them."""

    stage: str
    step: str | None = None

    def __str__(self) -> str:
        return self.stage if self.step is None else f"{self.stage} {self.step}"


def stage_key(plan: Plan, manifest_sha256: str, place: Place) -> str:
    """The name of one step of one release, the same in every run: "canary-0.05-1f3c…" (16 digits).

    Another plan or other inputs give another key, so that asking again is a new attempt and the
    record of the old one stays.
    """
    about = {
        "plan_sha256": plan_sha256(plan),
        "manifest_sha256": manifest_sha256,
        "stage": place.stage,
        "step": place.step,
    }
    name = str(place).replace(" ", "-")
    return f"{name}-{sha256_hex(canonical_bytes(about))[:16]}"


@dataclass(frozen=True)
class Router:
    """What a router said of itself.

    Attributes:
        state: who gets what.
        recording: whether every request is being recorded.
        why: why it is not.
        mute: routes of which copies were expected and none was offered.
        sent_over_expected: copies that were sent, of those expected; None: it does not say, or
            expected none.
    """

    state: RolloutState
    recording: bool = True
    why: str | None = None
    mute: tuple[str, ...] = ()
    sent_over_expected: float | None = None

    @property
    def silence(self) -> str | None:
        """Why a shadow's rows are not those of its traffic; None: they are, as far as is known."""
        if self.mute:
            return f"no copy was made of any request to {', '.join(self.mute)}"
        sent = self.sent_over_expected
        if sent is not None and not sent >= LEAST_SENT:
            return f"only {sent:.0%} of the copies that were expected were sent"
        return None


@dataclass(frozen=True)
class Judged:
    """A verdict, and which step it is of.

    Attributes:
        place: the step whose rows were judged last.
        status: GO, NO_GO, INCONCLUSIVE or INVALID.
        plan_sha256: of the plan it was reached under.
        manifest_sha256: of the rows; None where there were none, or of several.
        steps: of a canary, those that any deciding number is about.
        reasons: why this status.
        owners: who owns the metrics that decided it, where it is no GO.
        spent: what the stage used up (its n_max or window), in words; None: it may go on.
        on_record: SHA-256 of the file of the first GO of this step, which people sign; None: there
            is no such file yet.
    """

    place: Place
    status: Status
    plan_sha256: str
    manifest_sha256: str | None
    steps: frozenset[str]
    reasons: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    spent: str | None = None
    on_record: str | None = None


def judged(
    plan: Plan,
    verdict: Verdict,
    place: Place,
    *,
    spent: str | None = None,
    on_record: str | None = None,
) -> Judged:
    """What the ladder needs of a verdict.

    Args:
        plan: it was reached under; knows who owns a metric.
        verdict: of the stage's rows, all of its steps so far.
        place: the step the router was at when the rows were read.
        spent: as in `Judged`.
        on_record: as in `Judged`.
    """
    deciding = [e for e in verdict.rules if e.counts and e.role in ("primary", "guardrail")]
    bad = {e.name for e in deciding if e.outcome not in ("pass",)}
    owners = [] if verdict.status is Status.GO else [m.owner for m in plan.metrics if m.name in bad]
    return Judged(
        place=place,
        status=verdict.status,
        plan_sha256=verdict.plan_sha256,
        manifest_sha256=verdict.manifest_sha256,
        steps=frozenset(step for e in deciding if (step := _step(e)) is not None),
        reasons=tuple(verdict.reasons),
        owners=tuple(dict.fromkeys(owner for owner in owners if owner is not None)),
        spent=spent,
        on_record=on_record,
    )


def _step(entry: RuleResult) -> str | None:
    """The step a number is about; None where it says none."""
    parts = (entry.stratum or "").split(", ")
    named = [part.removeprefix(_STEP) for part in parts if part.startswith(_STEP)]
    return step_of(named[0]) if named else None


@dataclass(frozen=True)
class Decisions:
    """What people decided about a verdict, unchecked, and by what it is to be checked.

    Attributes:
        envelopes: each signed decision.
        signers: whose signatures count; None: nobody's.
        proposers: names of all who sealed the plan, where they may not approve it.
        exploratory: why a GO under this plan confirms nothing (`amendments.exploratory`).
    """

    envelopes: tuple[Envelope, ...] = ()
    signers: Signers | None = None
    proposers: frozenset[str] = frozenset()
    exploratory: tuple[str, ...] = ()


@dataclass(frozen=True)
class Situation:
    """All that is known at one moment.

    Attributes:
        plan: as written, not a stage's view of it.
        manifest_sha256: of what is to be released.
        now: when.
        router: its answer; None: it gave none.
        unreachable: why it gave none.
        judged: latest verdict of the place the router is at; None: there is none yet.
        decisions: of people, on the verdict that is on record.
        closed: why this release was taken back before; None: it was not.
        begun: whether this ladder has taken it up before.
        begin_again: a person asks to begin again although the router was turned off since.
        unfinished: verdict of a promotion that was begun and not ended; None: there is none.
        shadow_share: of requests that a shadow copies.
    """

    plan: Plan
    manifest_sha256: str
    now: datetime
    router: Router | None
    unreachable: str | None = None
    judged: Judged | None = None
    decisions: Decisions = field(default_factory=Decisions)
    closed: str | None = None
    begun: bool = False
    begin_again: bool = False
    unfinished: str | None = None
    shadow_share: float = 1.0
