"""The law of each position of a row, exactly as requested."""

from __future__ import annotations

from torch import Tensor

from specdecode.audit.row import AuditRow
from specdecode.decoding.distributions import distributions
from specdecode.decoding.params import SamplingParams


def row_law(
    logits: Tensor, row: AuditRow, start: int, params: SamplingParams | None = None
) -> Tensor:
    """Distributions of consecutive output positions of a row, each with its own history.

    Args:
        logits: float [R, V], raw logits of positions start..start+R-1.
        row: the row they belong to.
        start: first position.
        params: in place of the row's own sampling parameters.

    Returns:
        float [R, V].
    """
    chosen = row.params if params is None else params
    contexts = None
    if chosen.needs_history:
        contexts = [row.prompt + row.output[:t] for t in range(start, start + len(logits))]
    return distributions(logits, chosen, contexts, prompt_length=len(row.prompt))


def unfiltered(params: SamplingParams, *, temperature: float | None = None) -> SamplingParams:
    """The same parameters without top-k, top-p and min-p, and at another temperature if given."""
    changes: dict[str, float | int] = {"top_k": 0, "top_p": 1.0, "min_p": 0.0}
    if temperature is not None:
        changes["temperature"] = temperature
    return params.model_copy(update=changes)


def amplification(params: SamplingParams) -> float:
    """Factor by which the repetition penalty can stretch a difference between raw logits."""
    penalty = float(params.repetition_penalty)
    return max(penalty, 1 / penalty)
