"""Every lint has been made to fire, alone, on a plan that has no other finding."""

from __future__ import annotations

import pytest

from specdecode.governance.lint import LINTS
from tests.governance.faults.lints import FAULTS, findings


def test_every_lint_has_a_planted_fault():
    assert sorted(fault.code for fault in FAULTS) == sorted(entry.code for entry in LINTS)


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.code for fault in FAULTS])
def test_only_the_lint_meant_fires_and_beside_it_none_does(fault):
    repaired = [fault.start] if fault.undone else [fault.start, fault.plant, fault.repair]

    assert findings(fault.start) == []
    assert set(findings(fault.start, fault.plant)) == {fault.code}
    assert findings(*repaired) == []
