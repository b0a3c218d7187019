"""From a trace to tokens with an origin, and steps with a reason for where they stopped."""

from __future__ import annotations

from collections.abc import Sequence

from specdecode.decoding.trace import StepTrace
from specdecode.explaining.document import Judged, Origin, Step, Token
from specdecode.explaining.replay import Spell
from specdecode.explaining.rules import running_ratios


def tokens_of(token_ids: Sequence[int], steps: Sequence[StepTrace], spell: Spell) -> list[Token]:
    """Every token of a reply with the stage it came from.

    Tokens before the first step are the prompt's pass's own; a step's tokens are its kept draft
    tokens and then the one that was drawn.

    Raises:
        ValueError: the steps emitted other tokens than the reply ends with.
    """
    emitted = [(token, step, place) for step in steps for place, token in enumerate(step.emitted)]
    before = len(token_ids) - len(emitted)
    if before < 0 or [token for token, _, _ in emitted] != list(token_ids[before:]):
        raise ValueError("the trace is of another reply: its steps emitted other tokens")
    tokens = [
        Token(token_id=t, text=spell(t), origin="plain", step=None) for t in token_ids[:before]
    ]
    return tokens + [
        Token(token_id=token, text=spell(token), origin=_origin(step, place), step=step.step)
        for token, step, place in emitted
    ]


def _origin(step: StepTrace, place: int) -> Origin:
    if not step.draft_tokens:
        return "plain"
    if place < step.num_accepted:
        return "accepted"
    return "bonus" if step.num_accepted == len(step.draft_tokens) else "resampled"


def steps_of(steps: Sequence[StepTrace], rule: str | None, spell: Spell) -> list[Step]:
    """What each step did, the last one first."""
    costs = [_s_per_token(step) for step in steps]
    most = max((cost for cost in costs if cost is not None), default=None)
    found = [
        Step(
            step=step.step,
            position=step.position,
            drafted=_judged(step, spell),
            accepted=step.num_accepted,
            emitted=len(step.emitted),
            stopped=_stopped(step, rule, spell),
            draft_s=step.draft_s,
            score_s=step.score_s,
            verify_s=step.verify_s,
            s_per_token=cost,
            slowest=cost is not None and cost == most and len(steps) > 1,
        )
        for step, cost in zip(steps, costs, strict=True)
    ]
    return found[::-1]


def _s_per_token(step: StepTrace) -> float | None:
    seconds = step.draft_s + step.score_s + step.verify_s
    return seconds / len(step.emitted) if step.emitted else None


def _judged(step: StepTrace, spell: Spell) -> list[Judged]:
    return [
        Judged(
            token_id=token,
            text=spell(token),
            q=step.draft_probs[place],
            p=step.target_probs[place],
            coin=step.accept_coins[place],
            running_ratio=ratio,
            kept=place < step.num_accepted,
        )
        for place, (token, ratio) in enumerate(
            zip(step.draft_tokens, running_ratios(step), strict=True)
        )
    ]


def _stopped(step: StepTrace, rule: str | None, spell: Spell) -> str:
    kept, drafted = step.num_accepted, len(step.draft_tokens)
    if not drafted:
        return "nothing was drafted; the target drew the token itself"
    if len(step.emitted) <= kept:
        return f"the reply ended within the {kept} kept tokens"
    drawn = repr(spell(step.emitted[-1]))
    if kept == drafted:
        return f"whole block kept ({kept}); bonus token {drawn}"
    why = {"token": _by_token, "block": _by_block, "match": _by_match}.get(rule or "", _by_other)
    refused = repr(spell(step.draft_tokens[kept]))
    return f"{kept} of {drafted} kept; {refused} {why(step)}; {drawn} instead"


def _by_token(step: StepTrace) -> str:
    p, q, coin = _at(step)
    ratio = "p / q undefined" if q == 0 else f"p / q = {p:.4f} / {q:.4f} = {p / q:.4f}"
    return f"rejected: coin {coin:.4f} is not below {ratio}"


def _by_block(step: StepTrace) -> str:
    _, _, coin = _at(step)
    ratio = running_ratios(step)[step.num_accepted]
    if coin >= ratio:
        return f"rejected: coin {coin:.4f} is not below the running ratio p_i = {ratio:.4f}"
    return (
        f"rejected: coin {coin:.4f} is below the running ratio p_i = {ratio:.4f}, and not below "
        "h_i, which also counts what the next position still owes"
    )


def _by_match(step: StepTrace) -> str:
    p, _, coin = _at(step)
    return (
        f"rejected: the target's own draw (coin {coin:.4f}) was another; it gave this one "
        f"p = {p:.4f}"
    )


def _by_other(step: StepTrace) -> str:
    p, q, coin = _at(step)
    return f"rejected: p = {p:.4f}, q = {q:.4f}, coin {coin:.4f}"


def _at(step: StepTrace) -> tuple[float, float, float]:
    kept = step.num_accepted
    return step.target_probs[kept], step.draft_probs[kept], step.accept_coins[kept]
