"""The audit holds at every look, so a live stage may ask for it."""

from __future__ import annotations

import pytest

from specdecode.errors import ConfigError
from specdecode.governance import Outcome, Status, decide
from tests.governance.live.streams import SHADOW, digest, entry, live_plan, shadow

PLAN = live_plan(SHADOW | {"rules": ["block-lossless"]})
ROWS = shadow(400)


def audited(word):
    arms = {"plain": "lossless", "block": word}
    return {
        "alpha": 0.01,
        "rows_sha256": digest(ROWS),
        "arms": {arm: {"verdict": said, "tokens_read": 3000} for arm, said in arms.items()},
    }


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("lossless", Status.GO),
        ("biased", Status.NO_GO),
        ("undecided", Status.INCONCLUSIVE),
        ("fine", Status.INVALID),
    ],
)
def test_the_audits_word_counts_beside_the_metrics(word, status):
    verdict = decide(PLAN.at("shadow"), ROWS, audited(word))

    assert verdict.status is status
    assert [e.name for e in verdict.rules if e.role != "integrity"] == [
        "block-lossless", *SHADOW["metrics"]
    ]  # fmt: skip


def test_without_an_audit_it_is_invalid_and_the_metrics_are_judged_all_the_same():
    verdict = decide(PLAN.at("shadow"), ROWS)

    assert verdict.status is Status.INVALID
    assert entry(verdict, "e2e_s").outcome is Outcome.PASS


def test_no_other_rule_bears_a_second_look():
    with pytest.raises(ConfigError, match="block-errors looks once at a fixed n"):
        live_plan(SHADOW | {"rules": ["block-lossless", "block-errors"]})


def test_no_rule_has_the_name_of_a_metric():
    rules = [rule | {"name": "quality"} if rule["name"] == "block-lossless" else rule
             for rule in PLAN.model_dump()["rules"]]  # fmt: skip

    with pytest.raises(ConfigError, match="shadow: quality occurs twice"):
        live_plan(SHADOW | {"rules": ["quality"]}, rules=rules)
