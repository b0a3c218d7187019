"""Plan and parameters of every flip: one thing differs, and the two agree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from pipelines.agreement import check_agreement
from pipelines.flip.catalogue import FLIPS, UNCHANGED, AlreadySoError, chosen
from pipelines.flip.papers import differences, papers_of
from pipelines.workspace import parameters_of
from specdecode.errors import ConfigError
from specdecode.governance.plan import parse_plan
from tests.pipelines.flip.project import change, small_repository

NAMES = [
    *("unchanged", "useless-draft", "other-language", "higher-temperature", "longer-context"),
    *("one-thread", "adversarial-prompts", "half-draft-length"),
]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_repository(tmp_path_factory.mktemp("repository"))


def test_these_are_the_flips_and_the_unchanged_one_comes_first() -> None:
    assert list(FLIPS) == NAMES
    assert [flip.name for flip in chosen([])] == NAMES
    assert [f.name for f in chosen(["one-thread", "useless-draft"])] == [
        *(UNCHANGED, "useless-draft", "one-thread")
    ]


def test_a_flip_that_there_is_not_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match=r"no flip 'warp'; choose from: unchanged, useless-draft"):
        chosen(["one-thread", "warp"])


@pytest.mark.parametrize("profile", ["full", "smoke"])
@pytest.mark.parametrize("name", NAMES)
def test_plan_and_parameters_of_a_flip_agree(root: Path, name: str, profile: str) -> None:
    papers = papers_of(root, profile, FLIPS[name])

    check_agreement(parse_plan(papers.plan), papers.params)
    assert len(papers.changed) == (0 if name == UNCHANGED else 1)
    differing = differences(parameters_of(root, profile), papers.params)
    assert len([line for line in differing if not line.startswith("validate.")]) <= 1


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("useless-draft", "draft.source: self-int4 -> early-exit:1"),
        ("higher-temperature", "greedy 0, sampled 1 -> greedy 0, sampled 1.5"),
        ("one-thread", "decoding.threads: None -> 1"),
        ("half-draft-length", "decoding.num_speculative_tokens: 5 -> 2"),
        ("longer-context", "words before every prompt: 0 -> 600"),
        ("adversarial-prompts", "prompts to choose from: 155 -> 26"),
        ("other-language", "prompts to choose from: 155 -> 69"),
    ],
)
def test_it_says_what_differs(root: Path, name: str, told: str) -> None:
    [line] = papers_of(root, "full", FLIPS[name]).changed

    assert told in line


def test_the_questions_of_the_plan_stay(root: Path) -> None:
    before = yaml.safe_load((root / "plans/default.yaml").read_text(encoding="utf-8"))

    for name in NAMES:
        after = papers_of(root, "full", FLIPS[name]).plan
        for key in ("threshold", "level", "alpha", "margin", "n_min", "role"):
            assert [rule.get(key) for rule in after["rules"]] == [
                rule.get(key) for rule in before["rules"]
            ], (name, key)


def test_a_plan_expects_no_prompt_and_no_stratum_that_a_flip_does_not_have(root: Path) -> None:
    papers = papers_of(root, "full", FLIPS["adversarial-prompts"])

    there = int(papers.changed[0].rsplit(" ", maxsplit=1)[1])
    assert papers.plan["prompts_expected"]["full"] == there < 100
    [rule] = [r for r in papers.plan["rules"] if r["name"] == "block-faster-everywhere"]
    assert rule["strata"] == {"sampling": ["greedy", "sampled"], "difficulty": ["adversarial"]}
    assert "de" not in papers.params["validate"]["required_languages"]  # it has one in one half


def already(name: str, edit: Any, told: str) -> Any:
    return pytest.param(name, edit, told, id=name)


@pytest.mark.parametrize(
    ("name", "edit", "told"),
    [
        already("one-thread", lambda p: p["decoding"].update(threads=1), "is 1 already"),
        already(
            "half-draft-length",
            lambda p: p["decoding"].update(num_speculative_tokens=1),
            "has no half",
        ),
        already(
            "higher-temperature",
            lambda p: p["decoding"].update(sampling=[{"name": "greedy", "temperature": 0.0}]),
            "no temperature above 0",
        ),
        already(
            "useless-draft", lambda p: p["draft"].update(source="early-exit:1"), "'early-exit:1'"
        ),
    ],
)
def test_a_flip_that_would_change_nothing_is_not_run(
    tmp_path: Path, name: str, edit: Any, told: str
) -> None:
    root = small_repository(tmp_path / "repository")
    change(root, "params.yaml", edit)

    with pytest.raises(AlreadySoError, match=told):
        papers_of(root, "full", FLIPS[name])
