import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdecode.errors import ConfigError
from specdecode.statistics.multiplicity import AlphaLedger, exact, holm

weights = st.dictionaries(
    st.text(min_size=1, max_size=4), st.decimals(Decimal("0.001"), 100, places=3), min_size=1
)


class TestHolm:
    def test_golden_values(self):
        """Holm (1979): 4 * .01, then 3 * .02, 2 * .03 and .04 raised to what came before."""
        adjusted = holm({"d": 0.04, "a": 0.01, "c": 0.03, "b": 0.02})

        assert list(adjusted) == ["d", "a", "c", "b"]
        assert adjusted == pytest.approx({"a": 0.04, "b": 0.06, "c": 0.06, "d": 0.06})

    @given(st.lists(st.floats(0, 1), max_size=8), st.floats(0.01, 0.5))
    def test_it_rejects_what_stepping_down_rejects(self, p_values, alpha):
        named = dict(enumerate(p_values))
        order = sorted(named, key=named.__getitem__)
        rejected = set()
        for rank, name in enumerate(order):
            if (len(order) - rank) * named[name] > alpha:
                break
            rejected.add(name)

        assert {name for name, p in holm(named).items() if p <= alpha} == rejected

    @given(st.dictionaries(st.text(max_size=3), st.floats(0, 1), min_size=1))
    def test_it_lies_between_no_correction_and_bonferroni(self, p_values):
        for name, adjusted in holm(p_values).items():
            assert p_values[name] <= adjusted <= min(1, len(p_values) * p_values[name])

    def test_some_true_hypothesis_falls_in_at_most_alpha_of_families(self):
        rng = np.random.default_rng(0)
        families = 4000
        fallen = sum(
            min(holm(dict(enumerate(rng.random(6)))).values()) <= 0.1 for _ in range(families)
        )

        assert fallen / families <= 0.1 + 4 * math.sqrt(0.09 / families)

    @pytest.mark.parametrize("bad", [math.nan, -0.1, 1.1])
    def test_an_impossible_p_value_is_named(self, bad):
        with pytest.raises(ConfigError, match="'x'"):
            holm({"x": bad})


class TestExact:
    @pytest.mark.parametrize("number", [0.05, "0.05", Decimal("0.05"), "1/20", Fraction(1, 20)])
    def test_a_number_is_what_was_written(self, number):
        assert exact(number) == Fraction(1, 20)

    @pytest.mark.parametrize("bad", [math.nan, math.inf, "a lot", "1/0", Decimal("NaN"), None])
    def test_no_number_is_refused(self, bad):
        with pytest.raises(ConfigError, match="no exact number"):
            exact(bad)


class TestAlphaLedger:
    @given(weights)
    def test_weights_split_the_whole_total_and_nothing_more(self, shares):
        ledger = AlphaLedger.by_weights(0.05, shares)

        assert ledger.remaining == 0
        assert sum(Fraction(ledger.level(name)) for name in shares) <= Fraction(1, 20)
        whole = sum(map(Fraction, shares.values()))
        for name, share in shares.items():
            assert ledger.levels[name] == Fraction(share) / whole / 20
            assert ledger.level(name) == pytest.approx(float(ledger.levels[name]), rel=1e-15)

    def test_ten_tenths_are_exactly_the_whole(self):
        """Ten floats of 0.1 sum to 0.9999…; a ledger in floats would have lost or made some."""
        ledger = AlphaLedger(exact("1/2"))
        for stage in range(10):
            ledger = ledger.spend(f"stage {stage}", 0.05)

        assert ledger.remaining == 0
        with pytest.raises(ConfigError, match="more than the total"):
            ledger.spend("one more", "0.0000000000000000001")

    def test_spending_leaves_the_old_ledger_as_it_was(self):
        before = AlphaLedger(exact(0.05))
        after = before.spend("canary", 0.02)

        assert before.levels == {}
        assert after.spent == Fraction(1, 50)
        assert after.to_json() == {
            "total": "1/20",
            "levels": {"canary": "1/50"},
            "remaining": "3/100",
        }

    def test_stages_split_their_share_among_alarms(self):
        stages = AlphaLedger.by_weights("0.05", {"shadow": 1, "canary": 4})
        alarms = AlphaLedger.by_weights(stages.levels["canary"], {"errors": 1, "latency": 1})

        assert alarms.level("errors") == pytest.approx(0.02)

    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (lambda: AlphaLedger(exact(0.05), {"a": exact(0.03), "b": exact(0.03)}), "sum to 0.06"),
            (lambda: AlphaLedger(exact(0.05)).spend("a", 0), "positive"),
            (lambda: AlphaLedger(exact(0.05)).spend("a", 0.01).spend("a", 0.01), "already"),
            (lambda: AlphaLedger(exact(1)), "total"),
            (lambda: AlphaLedger.by_weights(0.05, {}), "no alarms"),
            (lambda: AlphaLedger.by_weights(0.05, {"a": -1, "b": 2}), "weight of 'a'"),
            (lambda: AlphaLedger.by_weights(0.05, {"a": 1}).level("b"), "'b' has no alpha"),
        ],
    )
    def test_impossible_ledgers_are_refused(self, call, message):
        with pytest.raises(ConfigError, match=message):
            call()
