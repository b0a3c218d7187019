"""What speculation takes for granted, stage by stage, and which of it did not hold for a reply."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specdecode.decoding.trace import StepTrace
from specdecode.explaining.costs import StepCost
from specdecode.explaining.document import Assumed, Assumption
from specdecode.explaining.recorded import Recorded
from specdecode.explaining.replay import Replay
from specdecode.explaining.rules import CHECKED, first_fault

LOADED = 1.5
"""A record this many times slower than its repetition was made on a busier machine. Repeated plain
runs on a quiet one scatter by about a tenth."""

AGREEMENT = "the draft agrees with the target"
DRAFTING = "drafting is cheap"
VERIFICATION = "verification is cheap"
LOSSLESS = "the sampler is lossless"
LOAD = "the machine is free"

_IDEAL = {
    AGREEMENT: ("agreement", "had every draft token been kept"),
    DRAFTING: ("drafting", "had drafting cost nothing"),
    VERIFICATION: ("verification", "had verification cost one plain pass"),
}


@dataclass(frozen=True)
class Reading:
    """All that is known of a reply.

    Attributes:
        recorded: as it was recorded.
        replay: decoded again; null for a trace file.
        steps: the trace.
        cost: what a step cost; null where nothing was drafted.
    """

    recorded: Recorded
    replay: Replay | None
    steps: Sequence[StepTrace]
    cost: StepCost | None

    @property
    def draft_failure(self) -> str | None:
        """Why drafting ended early, in the record or in its repetition."""
        again = None if self.replay is None else self.replay.result.draft_failure
        return self.recorded.draft_failure or again


def assumptions_of(reading: Reading) -> list[Assumption]:
    """The five assumptions in the order of the stages, each with its state and its numbers."""
    return [
        _agreement(reading),
        _drafting(reading),
        _verification(reading),
        _lossless(reading),
        _load(reading),
    ]


def _agreement(reading: Reading) -> Assumption:
    question = "Did steps yield enough tokens to pay for themselves?"
    if reading.draft_failure is not None:
        words = f"the drafter failed and the reply was finished plainly: {reading.draft_failure}"
        return Assumption(name=AGREEMENT, question=question, state="failed", words=words)
    cost = reading.cost
    if cost is None:
        return _nothing_drafted(AGREEMENT, question)
    drafted = sum(len(step.draft_tokens) for step in reading.steps)
    kept = sum(min(step.num_accepted, len(step.emitted)) for step in reading.steps)
    words = f"{kept} of {drafted} draft tokens kept, {cost.tokens:.2f} tokens a step"
    if cost.plain_s:
        words += f"; {cost.step_s / cost.plain_s:.2f} were needed to break even"
    return _by_cost(AGREEMENT, question, words, cost)


def _drafting(reading: Reading) -> Assumption:
    question = "Did a draft cost little beside a plain pass of the target?"
    cost = reading.cost
    if cost is None:
        return _nothing_drafted(DRAFTING, question)
    words = f"{_ms(cost.draft_s)} a step for {cost.drafted:.1f} draft tokens"
    if cost.plain_s and cost.drafted:
        words += f", {cost.draft_s / cost.drafted / cost.plain_s:.2f} plain passes for each"
    return _by_cost(DRAFTING, question, words, cost)


def _verification(reading: Reading) -> Assumption:
    question = "Did scoring a block cost about as much as one plain pass?"
    cost = reading.cost
    if cost is None:
        return _nothing_drafted(VERIFICATION, question)
    words = f"{_ms(cost.score_s)} for the target's pass and {_ms(cost.verify_s)} for the rule"
    if cost.plain_s:
        words += f", together {(cost.score_s + cost.verify_s) / cost.plain_s:.2f} plain passes"
    return _by_cost(VERIFICATION, question, words, cost)


def _by_cost(name: str, question: str, words: str, cost: StepCost) -> Assumption:
    """Failed if the reply lost time that it had gained but for this; see `costs`."""
    if cost.speed_ratio is None:
        words += "; there is no plain reply to compare with"
        return Assumption(name=name, question=question, state="unknown", words=words)
    if cost.pays:
        return Assumption(name=name, question=question, state="held", words=words)
    kind, condition = _IDEAL[name]
    alone = cost.ratio_if(kind) or 0.0
    words += f"; {condition}, the reply had been {alone:.2f} times as fast as plain decoding"
    state: Assumed = "failed" if alone >= 1 or _most_to_gain(cost) == kind else "held"
    if state == "failed" and alone < 1:
        words += ", which is the largest part though not enough alone"
    return Assumption(name=name, question=question, state=state, words=words)


def _most_to_gain(cost: StepCost) -> str | None:
    """Where no single assumption is to blame, the one that cost most; None where one is."""
    ratios = {kind: cost.ratio_if(kind) or 0.0 for kind, _ in _IDEAL.values()}
    return None if max(ratios.values()) >= 1 else max(ratios, key=lambda kind: ratios[kind])


def _lossless(reading: Reading) -> Assumption:
    question = "Are the tokens those the target's law and the coins ask for?"
    rule = reading.recorded.verification
    fault = first_fault(reading.steps, rule)
    failures = None if reading.replay is None else reading.replay.greedy_failures
    if fault is not None:
        words = f"not what the rule '{rule}' allows: {fault}"
        return Assumption(name=LOSSLESS, question=question, state="failed", words=words)
    if failures:
        words = (
            f"{failures} greedy tokens fall short of the target's best by more than its numerical "
            "tolerance"
        )
        return Assumption(name=LOSSLESS, question=question, state="failed", words=words)
    if failures == 0:
        words = "every token is the target's best, within its numerical tolerance"
        return Assumption(name=LOSSLESS, question=question, state="held", words=words)
    if rule in CHECKED and any(step.draft_tokens for step in reading.steps):
        words = (
            "every decision is one that coins, p and q allow; whether many replies follow the "
            "target's law is a question for `specdecode audit`"
        )
        return Assumption(name=LOSSLESS, question=question, state="held", words=words)
    words = "one sampled reply does not tell; `specdecode audit` reads many"
    return Assumption(name=LOSSLESS, question=question, state="unknown", words=words)


def _load(reading: Reading) -> Assumption:
    question = "Did the request take as long as it takes when repeated now?"
    before = reading.recorded.tpot_s
    now = None if reading.replay is None else reading.replay.result.timing.tpot_s
    if reading.replay is None:
        words = "a trace file says nothing about what else the machine did"
        return Assumption(name=LOAD, question=question, state="unknown", words=words)
    if before is None or not now:
        words = "the record or its repetition has no time per token"
        return Assumption(name=LOAD, question=question, state="unknown", words=words)
    words = (
        f"{_ms(before)} a token when recorded, {_ms(now)} now: {before / now:.2f} times as long "
        f"(a failure from {LOADED:g} on)"
    )
    state: Assumed = "failed" if before / now >= LOADED else "held"
    return Assumption(name=LOAD, question=question, state=state, words=words)


def _nothing_drafted(name: str, question: str) -> Assumption:
    return Assumption(
        name=name, question=question, state="unknown", words="nothing was drafted in this reply"
    )


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.1f} ms"
