"""Every check of live rows, and each way to judge a metric, has been made to fail."""

from __future__ import annotations

import pytest

from specdecode.governance import Outcome, Status
from specdecode.governance.live import integrity
from tests.governance.faults.live import FAULTS, ONE_STRATUM


def speaking(verdict):
    """Names of the entries with a say that do not pass."""
    return {
        entry.name.removeprefix("integrity/")
        for entry in verdict.rules
        if entry.counts and entry.outcome not in (Outcome.PASS, Outcome.NOT_EVALUATED)
    }


def test_every_check_of_live_rows_has_a_planted_fault():
    own = {"arms", *integrity._CHECKS, *integrity._SHARES}

    assert {fault.check for fault in FAULTS} >= own


@pytest.mark.parametrize("fault", FAULTS, ids=[f"{f.stage}: {f.planted}" for f in FAULTS])
def test_only_the_check_meant_fails_and_beside_it_none_does(fault):
    faulty, passing = fault.verdicts()

    assert faulty.status is fault.answer
    assert (passing.status, speaking(passing)) == (Status.GO, set())
    found = speaking(faulty)
    if fault.answer is Status.INVALID:
        assert found == {fault.check}
    else:  # a request that failed is not in time either
        assert fault.check in found
        assert any(
            entry.name == fault.check and entry.outcome is Outcome.FAIL for entry in faulty.rules
        )


def test_harm_to_one_stratum_alone_is_named():
    faulty, passing = ONE_STRATUM.verdicts()

    failed = {e.stratum for e in faulty.rules if e.outcome is Outcome.FAIL}
    assert (faulty.status, passing.status) == (Status.NO_GO, Status.GO)
    assert "category=tool_call" in failed
    assert "category=chat" not in failed
