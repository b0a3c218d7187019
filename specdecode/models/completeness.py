"""Weights and config must fit: transformers fills gaps with random numbers and only logs it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from specdecode.errors import ModelNotFoundError


def refuse_incomplete(report: Mapping[str, Any], folder: Path) -> None:
    """Refuse weights that do not fit the config.

    Args:
        report: transformers' loading info.
        folder: named in the error.

    Raises:
        ModelNotFoundError: naming the tensors.
    """
    tied = ("lm_head.weight", "rotary_emb.inv_freq")  # stored or not, they follow from the rest
    for problem in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        named = [key if isinstance(key, str) else key[0] for key in report.get(problem) or ()]
        wrong = sorted(key for key in named if not key.endswith(tied))
        if wrong:
            raise ModelNotFoundError(
                f"the weights in '{folder}' do not fit its config.json: {problem.split('_')[0]} "
                f"{', '.join(wrong[:3])}{' …' if len(wrong) > 3 else ''}; fetch the model again"
            )
