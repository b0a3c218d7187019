from pathlib import Path

import pytest

from specdecode.errors import ConfigError
from specdecode.statistics.study import ALPHA, method_study

ANYTIME = {
    "betting",
    "betting_finite",
    "empirical_bernstein",
    "slo_beta_binomial",
    "slo_betting",
    "slo_interval",
    "quantile_sequence",
    "sample_ratio",
    "drift_e_sr",
    "drift_e_cusum",
}
PEEKED = {
    "z_peeked",
    "bootstrap_peeked",
    "slo_binomial_peeked",
    "quantile_bootstrap_peeked",
    "sample_ratio_chi2_peeked",
}
FIXED = {name.replace("peeked", "fixed") for name in PEEKED}


@pytest.fixture(scope="module")
def study():
    return method_study(200, 240, 11)


def test_every_method_has_both_numbers_with_their_interval(study):
    assert set(study) == ANYTIME | PEEKED | FIXED | {"drift_cusum"}
    for entry in study.values():
        assert list(entry) == ["type1", "power"]
        for number in entry.values():
            assert list(number) == ["rate", "low", "high", "runs"]
            assert number["low"] <= number["rate"] <= number["high"]
            assert number["runs"] == 200


@pytest.mark.parametrize("method", sorted(ANYTIME))
def test_methods_that_may_look_at_every_value_keep_their_level(study, method):
    assert study[method]["type1"]["low"] <= ALPHA


@pytest.mark.parametrize("method", sorted(PEEKED))
def test_peeking_at_a_fixed_test_breaks_it(study, method):
    assert study[method]["type1"]["low"] > ALPHA


@pytest.mark.parametrize("method", sorted(PEEKED))
def test_peeking_rejects_whatever_the_one_look_at_the_end_would(study, method):
    for case in ("type1", "power"):
        fixed = study[method.replace("peeked", "fixed")][case]["rate"]
        # The bootstrap draws anew at each look, so that its last peek may differ at the border.
        assert study[method][case]["rate"] >= fixed - (0.05 if "bootstrap" in method else 0)


def test_more_looks_find_more(study):
    longer = method_study(200, 600, 11)

    for method in ANYTIME - {"drift_e_sr", "drift_e_cusum"}:
        assert longer[method]["power"]["rate"] > study[method]["power"]["rate"]


def test_the_seed_alone_decides_the_numbers():
    first = method_study(20, 60, 1)

    assert first == method_study(20, 60, 1)
    assert first != method_study(20, 60, 2)


@pytest.mark.slow
def test_the_documentation_shows_what_the_study_finds():
    table = (Path(__file__).parents[2] / "docs" / "statistics.md").read_text(encoding="utf-8")
    for method, entry in method_study(400, 600, 0).items():
        cells = [f"{n['rate']:.4f} ({n['low']:.3f}–{n['high']:.3f})" for n in entry.values()]

        assert f"| `{method}` | {cells[0]} | {cells[1]} |" in table


@pytest.mark.parametrize(("runs", "looks"), [(0, 600), (10, 59)])
def test_too_small_a_study_is_refused(runs, looks):
    with pytest.raises(ConfigError, match="at least"):
        method_study(runs, looks, 0)
