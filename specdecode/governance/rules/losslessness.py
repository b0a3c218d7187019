"""Does the arm produce the target's own distribution? Taken from the audit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from specdecode.governance.evidence import Evidence
from specdecode.governance.rules.base import Rule
from specdecode.governance.verdict import Outcome, RuleResult

Finding = tuple[Outcome, str, str | None]
_AGAIN = "run the audit stage on these rows"
_MORE = "more sampled tokens for the audit"


class Losslessness(Rule):
    """The audit's verdict on the arm, believed only when its control passed.

    The control is the same audit of plainly decoded rows. If that fails, the instrument is broken
    and nothing it says about the arm counts.
    """

    kind: Literal["losslessness"]
    alpha: Annotated[float, Field(gt=0, lt=0.5)] = Field(
        description="chance the audit may have of calling a lossless arm biased"
    )

    def evaluate(self, evidence: Evidence) -> list[RuleResult]:
        """One entry."""
        return [self._entry(*self._judge(evidence))]

    def _entry(self, outcome: Outcome, reason: str, remedy: str | None) -> RuleResult:
        return self.result(outcome, reason, remedy=remedy, threshold=self.alpha)

    def _judge(self, evidence: Evidence) -> Finding:
        audit, control = evidence.audit, evidence.baseline
        if audit is None:
            reason = f"there is no audit, so nothing says that {self.arm} is exact"
            return Outcome.INVALID, reason, _AGAIN
        if audit.get("alpha") != self.alpha:
            reason = f"the audit ran at alpha {audit.get('alpha')}, the plan asks {self.alpha:g}"
            return Outcome.INVALID, reason, f"run the audit at alpha {self.alpha:g}"
        trusted = _control(_word(audit, control), control)
        own = _arm(_word(audit, self.arm), self.arm)
        if own[0] is not Outcome.INVALID and (fault := _planted(audit, self.arm)) is not None:
            own = _on_purpose(self.arm, fault, seen=own[0] is Outcome.FAIL)
        if Outcome.INVALID in (trusted[0], own[0]):
            return trusted if trusted[0] is Outcome.INVALID else own
        if own[0] is not Outcome.PASS or trusted[0] is not Outcome.PASS:
            return own if own[0] is not Outcome.PASS else trusted
        if evidence.sampled(self.arm):
            for arm in (self.arm, control):
                if (unread := _unread(audit, arm)) is not None:
                    return unread
        return own


def _control(word: str | None, control: str) -> Finding:
    """What the audit of plainly decoded rows says about the audit itself."""
    if word == "lossless":
        return Outcome.PASS, "the audit found no deviation from the target", None
    if word == "undecided":
        reason = f"the audit read too little to decide about its control {control}"
        return Outcome.UNDECIDED, reason, _MORE
    if word == "biased":
        reason = (
            f"the audit calls its own control ({control}) biased: audit, model and rows do not "
            "belong together"
        )
        return Outcome.INVALID, reason, "audit with the target that produced the rows"
    return Outcome.INVALID, f"the audit has no control ({control} arm)", _AGAIN


def _arm(word: str | None, arm: str) -> Finding:
    if word == "lossless":
        return Outcome.PASS, "the audit found no deviation from the target", None
    if word == "undecided":
        return Outcome.UNDECIDED, f"the audit read too little to decide about {arm}", _MORE
    if word == "biased":
        reason = f"the audit found that {arm} does not reproduce the target's distribution"
        remedy = "find the faulty step in this arm's decoding; speed means nothing before that"
        return Outcome.FAIL, reason, remedy
    return Outcome.INVALID, f"the audit says nothing about arm {arm}", _AGAIN


def _planted(audit: Mapping[str, object], arm: str) -> str | None:
    """The fault that was planted in an arm to try the gate; None in every real run."""
    planted = audit.get("planted_faults")
    fault = planted.get(arm) if isinstance(planted, Mapping) else planted
    return None if fault is None else str(fault)


def _on_purpose(arm: str, fault: str, *, seen: bool) -> Finding:
    """An arm with a planted fault is wrong, also where the audit did not see it."""
    found = (
        f"the audit found that {arm} does not reproduce the target's distribution"
        if seen
        else f"the audit did not find it in {arm}"
    )
    reason = f"the fault '{fault}' was planted in arm {arm} on purpose, and {found}"
    return Outcome.FAIL, reason, "set decoding.planted_fault to none and run again"


def _unread(audit: Mapping[str, object], arm: str) -> Finding | None:
    """Sampled requests of which the audit read no token: its word covers the greedy ones only."""
    tokens = _report(audit, arm).get("tokens_read")
    if isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 0:
        reason = f"the audit does not say how many sampled tokens of {arm} it read"
        return Outcome.INVALID, reason, _AGAIN
    if not tokens:
        reason = f"requests were sampled, and the audit read no sampled token of {arm}"
        return Outcome.UNDECIDED, reason, _MORE
    return None


def _report(audit: Mapping[str, object], arm: str) -> Mapping[str, object]:
    arms = audit.get("arms")
    report = arms.get(arm) if isinstance(arms, Mapping) else None
    return report if isinstance(report, Mapping) else {}


def _word(audit: Mapping[str, object], arm: str) -> str | None:
    """The audit's word on an arm; None when absent or not one of its three words."""
    word = _report(audit, arm).get("verdict")
    return word if word in ("lossless", "biased", "undecided") else None
