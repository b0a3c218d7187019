"""The parameter that plants a fault: its names, and the arms it reaches."""

from __future__ import annotations

import copy

import pytest

from pipelines.parameters import Parameters, check
from pipelines.planted import NO_FAULT, PLANTABLE, planted_arms
from specdecode.audit.faults import FAULTS
from specdecode.audit.faults import NO_FAULT as LIBRARY_NO_FAULT
from specdecode.errors import ConfigError
from specdecode.governance.rules.losslessness import Losslessness
from specdecode.governance.verdict import Outcome
from tests.pipelines.test_parameters import PARAMS, changed

ARMS = ["plain", "token", "block"]


def test_the_names_are_those_of_the_catalogue() -> None:
    assert dict(PLANTABLE) == {name: fault.fits for name, fault in FAULTS.items()}
    assert NO_FAULT == LIBRARY_NO_FAULT


def test_nothing_is_planted_unless_asked_for() -> None:
    assert planted_arms({"arms": ARMS}) == {}
    assert planted_arms({"arms": ARMS, "planted_fault": "none"}) == {}
    shipped = copy.deepcopy(PARAMS) | {"profiles": None}
    assert Parameters.model_validate(shipped).decoding.planted_fault == NO_FAULT


def test_it_goes_into_every_arm_it_fits_and_never_into_the_baseline() -> None:
    fault = {"arms": ARMS, "planted_fault": "residual-is-target"}
    assert planted_arms(fault) == dict.fromkeys(["block", "token"], "residual-is-target")
    only = {"arms": ARMS, "planted_fault": "residual-unscaled"}
    assert planted_arms(only) == {"block": "residual-unscaled"}


def test_a_fault_that_fits_no_arm_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"fits block, and decoding\.arms has none"):
        planted_arms({"arms": ["plain", "token"], "planted_fault": "residual-unscaled"})


def test_a_misspelt_fault_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"decoding\.planted_fault.*residual-is-target"):
        check(changed("decoding.planted_fault", "residual-is-targte"))


class _Evidence:
    """What the rule looks at."""

    baseline = "plain"

    def __init__(self, word: str, planted: object = None) -> None:
        arms = {arm: {"verdict": word, "tokens_read": 9} for arm in ("token", "block")}
        arms["plain"] = {"verdict": "lossless", "tokens_read": 9}
        self.audit = {"alpha": 0.01, "arms": arms}
        if planted is not None:
            self.audit["planted_faults"] = planted

    def sampled(self, _arm: str) -> bool:
        return True


@pytest.mark.parametrize("word", ["lossless", "undecided", "biased"])
def test_an_arm_with_a_planted_fault_fails_whatever_the_audit_saw(word: str) -> None:
    rule = Losslessness(
        kind="losslessness", name="exact", arm="block", role="primary", alpha=0.01, why="-"
    )

    entry = rule.evaluate(_Evidence(word, {"block": "bonus-is-argmax"}))[0]

    assert entry.outcome is Outcome.FAIL
    assert "'bonus-is-argmax' was planted in arm block on purpose" in entry.reason
    other = rule.evaluate(_Evidence(word, {"token": "bonus-is-argmax"}))[0]
    assert "planted" not in other.reason
