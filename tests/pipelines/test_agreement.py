from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipelines.agreement import check_agreement
from pipelines.parameters import merged
from specdecode.errors import ConfigError
from specdecode.governance import load_plan

ROOT = Path(__file__).resolve().parents[2]
PLAN = load_plan(ROOT / "plans/default.yaml")
PARAMS: dict[str, Any] = yaml.safe_load((ROOT / "params.yaml").read_text())


@pytest.mark.parametrize("profile", sorted(PARAMS["profiles"]))
def test_the_shipped_plan_and_parameters_agree(profile: str) -> None:
    params = merged(PARAMS, PARAMS["profiles"][profile])
    params["profile"] = profile

    check_agreement(PLAN, params)


def changed(section: str, key: str, value: object) -> dict[str, Any]:
    params = copy.deepcopy(PARAMS)
    params[section][key] = value
    return params


def sampling(greedy: float, sampled: float) -> dict[str, Any]:
    settings = {"greedy": greedy, "sampled": sampled}
    listed = [{"name": name, "temperature": value} for name, value in settings.items()]
    return changed("decoding", "sampling", listed)


@pytest.mark.parametrize(
    ("params", "told"),
    [
        (changed("decoding", "arms", ["plain", "block"]), "arms are plain, token, block"),
        (changed("decoding", "sampling", [{"name": "greedy"}]), "greedy, sampled in the plan"),
        (changed("draft", "source", "prompt-lookup"), "'self-int4' in the plan, with 'prompt-"),
        (sampling(0.5, 1.0), "setting 'greedy' needs temperature 0, it is 0.5 here"),
        (sampling(0, 0.0), "setting 'sampled' needs a temperature above 0, it is 0 here"),
        ({**PARAMS, "profile": "nightly"}, "profile 'nightly'"),
        (changed("prompts", "limit", 99), "expects 100 prompts of the profile 'full', prompts.li"),
        (changed("prompts", "order_seed", 7), "order_seed is 20252 in the plan, prompts."),
        (changed("audit", "alpha", 0.05), "block-lossless asks for alpha 0.01, the audit"),
    ],
)
def test_a_difference_is_named_before_anything_is_measured(
    params: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigError, match=r"params\.yaml differ") as caught:
        check_agreement(PLAN, params)

    assert told in str(caught.value)


def test_a_draft_length_the_plan_fixes_must_be_the_one_measured() -> None:
    arms = [
        arm.model_copy(update={"num_speculative_tokens": 9}) if arm.draft else arm
        for arm in PLAN.arms
    ]

    with pytest.raises(ConfigError, match="drafts 9 tokens in the plan"):
        check_agreement(PLAN.model_copy(update={"arms": arms}), PARAMS)
