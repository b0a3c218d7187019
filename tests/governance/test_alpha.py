"""One ledger of false GO over all stages."""

from __future__ import annotations

from fractions import Fraction

import pytest

from specdecode.errors import ConfigError
from specdecode.governance.alpha import false_go_ledger
from tests.governance.live.streams import SHADOW, WATCH, live_plan


def test_stages_are_summed_in_exact_fractions_and_watch_has_no_share():
    ledger = false_go_ledger(live_plan())

    assert dict(ledger.levels) == {
        "offline": Fraction(1, 40), "shadow": Fraction(1, 20), "canary": Fraction(1, 20)
    }  # fmt: skip
    assert ledger.spent == ledger.total == Fraction(1, 8)


def test_a_total_says_what_is_left_and_is_not_exceeded():
    assert false_go_ledger(live_plan(alpha_total=0.2)).remaining == Fraction(3, 40)
    with pytest.raises(ConfigError, match=r"sum to 0\.125"):
        false_go_ledger(live_plan(alpha_total=0.12))


def test_stages_that_together_always_may_err_are_refused_even_without_a_total():
    stages = [SHADOW | {"alpha": 0.49}, SHADOW | {"name": "canary", "steps": [0.5], "alpha": 0.49}]

    with pytest.raises(ConfigError, match="must lie inside"):
        false_go_ledger(live_plan(*stages, WATCH))
