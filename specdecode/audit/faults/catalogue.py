"""The catalogue: every fault that can be planted, by name."""

from __future__ import annotations

from typing import Final

from specdecode.audit.faults import rule_faults as rules
from specdecode.audit.faults.draft_faults import DraftFault, unfiltered, untempered
from specdecode.audit.faults.fault import Fault
from specdecode.audit.faults.target_faults import (
    TargetFault,
    at_other_temperature,
    without_penalties,
)
from specdecode.errors import ConfigError

_FILTERED = {"top_p": 0.8}
_COOL = {"temperature": 0.6}
_PENALISED = {"presence_penalty": 1.5}
_BLOCK, _TOKEN = ("block",), ("token",)

_ALL = (
    Fault(
        "residual-is-target",
        "after a rejection it draws from the target's law and does not subtract the draft's",
        rule=rules.residual_is_target,
    ),
    Fault(
        "residual-unscaled",
        "block verification's residual leaves out the factor of the kept prefix",
        _BLOCK,
        rule=rules.residual_unscaled,
    ),
    Fault(
        "residual-absolute",
        "the residual takes |p - q| in place of its positive part",
        rule=rules.residual_absolute,
    ),
    Fault(
        "residual-softmaxed",
        "the residual goes through a softmax as if it were logits",
        rule=rules.residual_softmaxed,
    ),
    Fault(
        "stops-at-first-rejection",
        "block verification ends at the first rejected token",
        _BLOCK,
        rule=rules.stops_at_first_rejection,
    ),
    Fault(
        "keeps-past-rejection",
        "token verification keeps everything up to the last token that passes",
        _TOKEN,
        rule=rules.keeps_past_rejection,
    ),
    Fault(
        "accepts-by-ratio",
        "block verification accepts by the running ratio without looking ahead",
        _BLOCK,
        rule=rules.accepts_by_ratio,
    ),
    Fault(
        "accepts-by-next-row",
        "draft tokens are judged by the target's row after them: off by one",
        rule=rules.accepts_by_next_row,
    ),
    Fault(
        "lenient-acceptance",
        "acceptance probabilities are divided by 0.8",
        rule=rules.lenient(0.8),
    ),
    Fault(
        "slightly-lenient-acceptance",
        "acceptance probabilities are divided by 0.99",
        rule=rules.lenient(0.99),
    ),
    Fault(
        "typical-acceptance",
        "a draft token passes when the target finds it typical, whatever the draft's law",
        _TOKEN,
        rule=rules.typical_acceptance,
    ),
    Fault(
        "bonus-one-row-early",
        "the bonus token comes from the target's row before the last",
        rule=rules.bonus_one_row_early,
    ),
    Fault(
        "bonus-from-draft",
        "the bonus token is drawn from the draft's law",
        rule=rules.bonus_from_draft,
    ),
    Fault(
        "bonus-is-argmax",
        "the bonus token is the target's likeliest one",
        rule=rules.bonus_is_argmax,
    ),
    Fault(
        "coin-used-twice",
        "the coin that rejected a draft token also draws the token in its place",
        _TOKEN,
        rule=rules.coin_used_twice,
    ),
    Fault(
        "draft-probs-unfiltered",
        "the stated draft probabilities are those before top-k, top-p and min-p",
        sampling=_FILTERED,
        draft=DraftFault(states=unfiltered),
    ),
    Fault(
        "draft-probs-untempered",
        "the stated draft probabilities are those at temperature 1",
        sampling=_COOL,
        draft=DraftFault(states=untempered),
    ),
    Fault(
        "draft-greedy-stated-as-sampled",
        "the likeliest token is drafted and the probability of a sample is stated",
        draft=DraftFault(greedy=True),
    ),
    Fault(
        "draft-cut-after-look",
        "a block ends before a draft token whose probability is below 0.35",
        draft=DraftFault(cut_below=0.35),
    ),
    Fault(
        "penalties-skipped",
        "penalties do not act on verified positions",
        sampling=_PENALISED,
        target=TargetFault(verified=without_penalties),
    ),
    Fault(
        "penalties-forget-draft",
        "penalties on verified positions do not count the draft tokens before them",
        sampling=_PENALISED,
        target=TargetFault(forgets_draft=True),
    ),
    Fault(
        "filters-skipped",
        "top-k, top-p and min-p do not act on verified positions",
        sampling=_FILTERED,
        target=TargetFault(verified=unfiltered),
    ),
    Fault(
        "bonus-untempered",
        "the bonus token is drawn at temperature 1",
        sampling=_COOL,
        target=TargetFault(bonus=untempered),
    ),
    Fault(
        "temperature-off",
        "verified positions have a temperature that is 15 percent too low",
        target=TargetFault(verified=at_other_temperature(0.85)),
    ),
    Fault(
        "temperature-slightly-off",
        "verified positions have a temperature that is 2 percent too low",
        target=TargetFault(verified=at_other_temperature(0.98)),
    ),
    Fault(
        "stale-cache",
        "after a rejection the cache keeps the rejected token in place of the one drawn for it",
        target=TargetFault(stale_cache=True),
    ),
)

FAULTS: Final = {fault.name: fault for fault in _ALL}
"""Every fault by name."""

NO_FAULT: Final = "none"
"""What a parameter says that plants nothing."""


def find_fault(name: str) -> Fault:
    """A fault by its name.

    Raises:
        ConfigError: there is none of that name; lists those there are.
    """
    try:
        return FAULTS[name]
    except KeyError:
        known = ", ".join(FAULTS)
        raise ConfigError(f"there is no fault '{name}' to plant; choose one of {known}") from None
