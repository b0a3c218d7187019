"""All that is known of a reply as one document."""

from __future__ import annotations

from specdecode.decoding.trace import StepTrace
from specdecode.errors import EvidenceError
from specdecode.explaining.assumptions import Reading, assumptions_of
from specdecode.explaining.costs import StepCost, step_cost
from specdecode.explaining.document import SCHEMA, Assumption, Explanation, Stage
from specdecode.explaining.recorded import Recorded
from specdecode.explaining.replay import Replay, Spell
from specdecode.explaining.steps import steps_of, tokens_of


def explain(
    recorded: Recorded,
    spell: Spell,
    replay: Replay | None = None,
    *,
    draft: str | None = None,
    num_speculative_tokens: int | None = None,
) -> Explanation:
    """Read a reply backwards.

    Args:
        recorded: the reply. Without a trace of its own, `replay` has to have one.
        spell: token ids as text.
        replay: the same request decoded again.
        draft: what drafted, where the record does not say.
        num_speculative_tokens: γ, likewise.

    Raises:
        EvidenceError: there is no trace, or it is of another reply.
    """
    if replay is None:
        steps, token_ids = recorded.steps, recorded.token_ids
        ttft_s, e2e_s, plain_s = recorded.ttft_s, recorded.e2e_s, recorded.plain_tpot_s
    else:
        timing = replay.result.timing
        steps, token_ids = replay.result.trace, replay.result.token_ids
        ttft_s, e2e_s, plain_s = timing.ttft_s, timing.e2e_s, replay.plain.timing.tpot_s
    if steps is None or token_ids is None:
        raise EvidenceError(f"{recorded.request}: there is no trace to read")
    after_first = None if ttft_s is None or e2e_s is None else e2e_s - ttft_s
    cost = step_cost(steps, after_first_s=after_first, plain_s=plain_s)
    assumptions = assumptions_of(Reading(recorded, replay, steps, cost))
    failed = next((a for a in assumptions if a.state == "failed"), None)
    try:
        tokens = tokens_of(token_ids, steps, spell)
    except ValueError as error:
        raise EvidenceError(f"{recorded.request}: {error}") from error
    return Explanation(
        schema=SCHEMA,
        request=recorded.request,
        source=recorded.source,
        summary=_summary(recorded, cost, failed),
        first_failed=None if failed is None else failed.name,
        replayed=replay is not None,
        reproduced=None if replay is None else replay.equal,
        reproduction=_reproduction(recorded, replay),
        verification=recorded.verification,
        draft=(recorded.draft or draft) if recorded.drafting else None,
        num_speculative_tokens=num_speculative_tokens or recorded.num_speculative_tokens,
        tokens=tokens,
        steps=steps_of(steps, recorded.verification, spell),
        stages=_stages(steps, ttft_s, e2e_s),
        assumptions=assumptions,
        speed_ratio=None if cost is None else cost.speed_ratio,
    )


def _summary(recorded: Recorded, cost: StepCost | None, failed: Assumption | None) -> str:
    parts = []
    if recorded.error is not None:
        parts.append(f"The recorded request failed: {recorded.error}.")
    if cost is not None and cost.speed_ratio is not None:
        word = "faster" if cost.pays else "slower"
        parts.append(
            f"Speculation was {word} than plain decoding here: {cost.speed_ratio:.2f} times as "
            "many tokens per second after the first."
        )
    if cost is None:
        parts.append("Nothing was drafted, so this is the target's own pace.")
    if failed is not None:
        parts.append(f"The first assumption that failed: {failed.name} ({failed.words}).")
    elif cost is not None and cost.speed_ratio is None:
        parts.append("Whether it paid is not known: there is no plain reply beside it.")
    elif cost is not None:
        parts.append("No assumption failed.")
    return " ".join(parts)


def _reproduction(recorded: Recorded, replay: Replay | None) -> str:
    if replay is None:
        return "The trace was recorded with the reply."
    if not replay.compared:
        return "The row holds no reply, so there was nothing to compare the repetition with."
    if replay.first_difference is None:
        return "Decoded again with its seed and parameters: the tokens came out equal."
    return (
        "Decoded again with its seed and parameters: the tokens differ from token "
        f"{replay.first_difference + 1} of {len(recorded.token_ids or ())} on, so what follows is "
        "about the repetition. Other hardware, threads or versions round differently; otherwise "
        "model, draft or draft length are not those of the record."
    )


def _stages(steps: tuple[StepTrace, ...], ttft_s: float | None, e2e_s: float | None) -> list[Stage]:
    spent = {
        name: sum(getattr(step, field) for step in steps)
        for name, field in (
            ("draft", "draft_s"),
            ("score (the target's pass)", "score_s"),
            ("verify (the rule)", "verify_s"),
        )
    }
    known = {"prompt and first token": ttft_s, **spent}
    rest = None
    if ttft_s is not None and e2e_s is not None:
        rest = max(0.0, e2e_s - ttft_s - sum(spent.values()))
    known["everything else"] = rest
    return [
        Stage(name=name, seconds=seconds, share=_share(seconds, e2e_s))
        for name, seconds in known.items()
    ]


def _share(seconds: float | None, whole: float | None) -> float | None:
    return None if seconds is None or not whole else min(1.0, seconds / whole)
