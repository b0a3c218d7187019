from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from pipelines.show import print_outcome
from pipelines.stages.command import write_json


def rule(name: str, outcome: str, **numbers: Any) -> dict[str, Any]:
    empty = dict.fromkeys(("estimate", "low", "high", "threshold", "n"))
    return {"name": name, "outcome": outcome, **empty, **numbers}


def shown(root: Path, **verdict: Any) -> str:
    write_json(root / "reports/verdict.json", {"reasons": [], "rules": [], **verdict})
    out = io.StringIO()
    print_outcome(root, Console(file=out, width=200))
    return out.getvalue()


@pytest.mark.parametrize("status", ["GO", "NO_GO", "INCONCLUSIVE", "INVALID"])
def test_the_status_comes_first_and_the_report_last(tmp_path: Path, status: str) -> None:
    text = shown(tmp_path, status=status, reasons=["block-faster (block): 1.3 times plain"])

    assert f"{status}: " in text.splitlines()[1]
    assert "1.3 times plain" in text
    assert str(tmp_path / "reports/evaluation.html") in text


def test_a_rule_has_its_numbers_and_a_missing_one_stays_blank(tmp_path: Path) -> None:
    rules = [
        rule("fast", "pass", estimate=1.31, low=1.2, high=1.42, threshold=1.1, n=120),
        rule("lossless", "undecided", threshold=0.01),
    ]

    lines = shown(tmp_path, status="INCONCLUSIVE", rules=rules).splitlines()

    fast = next(line for line in lines if line.startswith("fast"))
    lossless = next(line for line in lines if line.startswith("lossless"))
    assert fast.split() == ["fast", "1.31", "1.2", "…", "1.42", "1.1", "120", "pass"]
    assert lossless.split() == ["lossless", "0.01", "undecided"]


def test_what_a_rule_found_stratum_by_stratum_is_counted(tmp_path: Path) -> None:
    rules = [rule("everywhere", outcome) for outcome in ("pass", "pass", "fail")]

    text = shown(tmp_path, status="NO_GO", rules=rules)

    assert "2 pass, 1 fail" in text
    assert text.count("everywhere") == 1


def test_many_reasons_are_cut_and_counted(tmp_path: Path) -> None:
    text = shown(tmp_path, status="INVALID", reasons=[f"reason {i}" for i in range(9)])

    assert "reason 5" in text
    assert "reason 6" not in text
    assert "and 3 more" in text
