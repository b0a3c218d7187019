"""A fault planted on purpose, as params.yaml names it: which there are, and in which arms they go.

The names stand here once more because parameters are checked before torch is loaded; a test holds
them to `specdecode.audit.faults.FAULTS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from specdecode.errors import ConfigError

NO_FAULT: Final = "none"

PLANTABLE: Final[Mapping[str, tuple[str, ...]]] = {
    "residual-is-target": ("block", "token"),
    "residual-unscaled": ("block",),
    "residual-absolute": ("block", "token"),
    "residual-softmaxed": ("block", "token"),
    "stops-at-first-rejection": ("block",),
    "keeps-past-rejection": ("token",),
    "accepts-by-ratio": ("block",),
    "accepts-by-next-row": ("block", "token"),
    "lenient-acceptance": ("block", "token"),
    "slightly-lenient-acceptance": ("block", "token"),
    "typical-acceptance": ("token",),
    "bonus-one-row-early": ("block", "token"),
    "bonus-from-draft": ("block", "token"),
    "bonus-is-argmax": ("block", "token"),
    "coin-used-twice": ("token",),
    "draft-probs-unfiltered": ("block", "token"),
    "draft-probs-untempered": ("block", "token"),
    "draft-greedy-stated-as-sampled": ("block", "token"),
    "draft-cut-after-look": ("block", "token"),
    "penalties-skipped": ("block", "token"),
    "penalties-forget-draft": ("block", "token"),
    "filters-skipped": ("block", "token"),
    "bonus-untempered": ("block", "token"),
    "temperature-off": ("block", "token"),
    "temperature-slightly-off": ("block", "token"),
    "stale-cache": ("block", "token"),
}
"""Every fault, and the arms (verification rules) it can be planted in."""


def planted_arms(decoding: Mapping[str, Any]) -> dict[str, str]:
    """Arm to planted fault, by the section `decoding` of params.yaml; empty in every real run.

    Raises:
        ConfigError: the fault fits none of the arms.
    """
    fault = decoding.get("planted_fault", NO_FAULT)
    if fault == NO_FAULT:
        return {}
    found = {arm: fault for arm in decoding["arms"] if arm in PLANTABLE.get(fault, ())}
    if not found:
        fits = ", ".join(PLANTABLE.get(fault, ())) or "nothing"
        raise ConfigError(
            f"decoding.planted_fault is '{fault}', which fits {fits}, and decoding.arms has none "
            "of these; plant another fault, or none"
        )
    return found
