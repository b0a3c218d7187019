"""Part 4: how much the draft's law overlaps with the target's, exactly, on texts held out.

Both laws are those the engine would use, over the whole vocabulary and after temperature. What is
given is the expected acceptance of a single draft token, Σ_x min(p(x), q(x)); at temperature 0 that
is whether both have the same best token.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from specdecode.decoding import SamplingParams
from specdecode.decoding.distributions import distributions
from specdecode.distil.synthesise import logits_before
from specdecode.distil.texts import REPLY, Conversation
from specdecode.drafting import scoring_network
from specdecode.errors import DataValidationError, ModelMismatchError
from specdecode.models import LoadedModel
from specdecode.workload.progress import progress

TEMPERATURES = (1.0, 0.7, 0.0)


def evaluate(
    target: LoadedModel, drafts: Mapping[str, Path], texts: Sequence[Conversation]
) -> dict[str, Any]:
    """Evaluate drafts on the same positions: those of the replies.

    Args:
        target: the model.
        drafts: folders by name.
        texts: held out from training.

    Returns:
        By name, then by temperature: mean and standard error. The error is that of a ratio over
        conversations, as positions of one text are no independent draws; None for a single text.

    Raises:
        DataValidationError: no reply to evaluate on.
        ModelMismatchError: a draft without a network.
    """
    networks = {}
    for name, folder in drafts.items():
        network = scoring_network(str(folder), target)
        if network is None:
            raise ModelMismatchError(f"draft '{folder}' has no law of its own to evaluate")
        networks[name] = network
    places = [(text, (text.kinds == REPLY).nonzero()[:, 0]) for text in texts]
    places = [(text, rows) for text, rows in places if len(rows)]
    if not places:
        raise DataValidationError("no replies are held out, so nothing can be said of the draft")
    sums: dict[str, dict[float, list[float]]] = {
        name: {t: [] for t in TEMPERATURES} for name in networks
    }
    with progress("evaluated texts", len(places), 0) as advance:
        for text, rows in places:
            tokens = text.tokens.tolist()
            wanted = logits_before(target.network, tokens, rows)
            given = {n: logits_before(net, tokens, rows) for n, net in networks.items()}
            for temperature in TEMPERATURES:
                params = SamplingParams(temperature=temperature)
                p = distributions(wanted, params)
                for name, logits in given.items():
                    overlap = torch.minimum(p, distributions(logits, params)).sum(-1)
                    sums[name][temperature].append(float(overlap.double().sum()))
            advance(f"{len(tokens)} tokens")
    sizes = [len(rows) for _, rows in places]
    return {
        "texts": len(places),
        "positions": sum(sizes),
        "drafts": {
            name: {f"{t:g}": _ratio(values, sizes) for t, values in by_temperature.items()}
            for name, by_temperature in sums.items()
        },
    }


def _ratio(sums: Sequence[float], sizes: Sequence[int]) -> dict[str, float | None]:
    """Mean over positions and its standard error, clustered by text (delta method)."""
    mean = sum(sums) / sum(sizes)
    n = len(sums)
    if n < 2:
        return {"expected_acceptance": round(mean, 6), "standard_error": None}
    squares = sum((s - mean * size) ** 2 for s, size in zip(sums, sizes, strict=True))
    error = math.sqrt(squares * n / (n - 1)) / sum(sizes)
    return {"expected_acceptance": round(mean, 6), "standard_error": round(error, 6)}
