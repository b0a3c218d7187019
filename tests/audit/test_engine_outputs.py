"""The audit reads what the engine really writes."""

from dataclasses import asdict

import numpy as np
import pytest

from specdecode import Engine, SamplingParams
from specdecode.audit import audit, audit_arms
from specdecode.decoding.scoring import stepwise
from specdecode.errors import ModelMismatchError
from tests.audit.models import VOCAB, tiny_llama

LENGTH = 40
PROMPTS = [[1, 2 + n % (VOCAB - 2), 2 + (7 * n) % (VOCAB - 2)] for n in range(66)]
GREEDY = SamplingParams(temperature=0.0, max_tokens=LENGTH, ignore_eos=True)
SAMPLED = SamplingParams(temperature=0.9, top_p=0.95, max_tokens=LENGTH, ignore_eos=True, seed=0)


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    return tiny_llama(tmp_path_factory.mktemp("target"))


@pytest.fixture(scope="module")
def draft_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("draft")
    tiny_llama(folder, layers=1, seed=1)
    return str(folder)


def rows(engine, params, prompts=PROMPTS):
    each = [params.model_copy(update={"seed": index}) for index in range(len(prompts))]
    return [
        {
            "prompt_id": f"p{index}",
            "prompt_token_ids": list(result.prompt_token_ids),
            "output_token_ids": list(result.token_ids),
            "finish_reason": result.finish_reason,
            "sampling": params.model_dump(mode="json"),
            "order_index": index if params.is_greedy else len(prompts) + index,
        }
        for index, result in enumerate(engine.generate(prompts, each))
    ]


@pytest.fixture(scope="module")
def arms(target, draft_folder):
    engines = {
        "plain": Engine.load(target),
        "token": Engine.load(target, draft_folder, verification="token"),
        "block": Engine.load(target, draft_folder, verification="block"),
    }
    return {
        arm: rows(engine, GREEDY, PROMPTS[:20]) + rows(engine, SAMPLED)
        for arm, engine in engines.items()
    }


def test_every_arm_of_the_engine_is_lossless(arms, target, draft_folder):
    reports = audit_arms(arms, target, draft_folder)

    for report in reports.values():
        assert report.verdict == "lossless", report.reasons
        assert report.greedy["failures"] == 0
        assert report.sampled["impossible"] == 0
    assert reports["plain"].greedy["control"] is None
    assert reports["block"].greedy["control"]["tokens"] == 20 * LENGTH
    assert reports["block"].greedy["against_baseline"]["pairs"] == 20


def test_one_arm_alone_gives_the_same_evidence_as_among_others(arms, target):
    alone = audit(arms["block"], target, baseline_rows=arms["plain"])
    among = audit_arms(arms, target)["block"]

    assert alone.log_e_value == pytest.approx(among.log_e_value, abs=1e-3)
    assert alone.verdict == among.verdict


def test_parameters_that_were_not_applied_are_found(arms, target):
    """Every parameter must change the verdict when the rows claim it and the engine skipped it."""
    honest = [row for row in arms["block"] if row["sampling"]["temperature"]]
    for claim in (
        {"temperature": 0.5},
        {"top_k": 3},
        {"top_p": 0.6},
        {"min_p": 0.3},
        {"repetition_penalty": 1.6},
        {"logit_bias": {7: 5.0}},
    ):
        claimed = [{**row, "sampling": {**row["sampling"], **claim}} for row in honest]
        assert audit(claimed, target).verdict == "biased", claim


def test_argmax_outputs_that_claim_a_temperature_are_biased(arms, target):
    claimed = [
        {**row, "sampling": SAMPLED.model_dump()}
        for row in arms["plain"]
        if not row["sampling"]["temperature"]
    ]

    assert audit(claimed, target).verdict == "biased"


def test_sampled_outputs_that_claim_to_be_greedy_are_failures(arms, target):
    claimed = [{**row, "sampling": GREEDY.model_dump()} for row in arms["plain"]]

    assert audit(claimed, target).verdict == "biased"


def test_outputs_of_another_model_are_biased(arms, draft_folder):
    assert audit(arms["plain"], draft_folder).verdict == "biased"


def test_one_token_at_a_time_and_all_at_once_differ_by_rounding_only(arms, target):
    tolerance = audit(arms["plain"], target).greedy["tolerance"]

    assert tolerance["positions"] > 100
    assert 0 < tolerance["gap"] < 1e-3
    assert stepwise(target, (PROMPTS[0], [3, 4])).shape == (2, VOCAB)


def test_a_draft_of_another_vocabulary_is_refused(arms, target, tmp_path, monkeypatch):
    monkeypatch.setattr("tests.audit.models.VOCAB", VOCAB + 1)
    other = tiny_llama(tmp_path)

    with pytest.raises(ModelMismatchError):
        audit(arms["plain"], target, other)


class TestPromptLookup:
    """A drafter without a network is known by what it proposes."""

    @staticmethod
    def repeated(row, accepted):
        """The row after a prompt that holds its reply; each proposal accepted with a chance."""
        coins = np.random.default_rng(int(row["prompt_id"][1:]))
        prompt = [*row["prompt_token_ids"], *row["output_token_ids"]]
        copy = row["output_token_ids"]
        reply = [t if coins.random() < accepted else int(coins.integers(VOCAB)) for t in copy]
        sampling = {**row["sampling"], "temperature": 1.0, "top_p": 1.0}
        begun = [*prompt, *row["prompt_token_ids"]]
        return {
            **row,
            "prompt_token_ids": begun,
            "output_token_ids": reply,
            "sampling": sampling,
            "order_index": None,
        }

    def test_honest_outputs_are_lossless_in_the_draft_direction_too(self, target):
        engine = Engine.load(target, "prompt-lookup")
        repetitive = [[*prompt, *prompt, *prompt] for prompt in PROMPTS]
        drafted = [{**row, "drafted": 1} for row in rows(engine, SAMPLED, repetitive)]
        report = audit(drafted, target, "prompt-lookup")

        assert report.verdict == "lossless", report.reasons
        assert report.sampled["draft_known"] is True
        assert report.directions["draft"] != 0.0

    def test_a_verifier_that_accepts_proposals_too_often_leans_towards_them(self, arms, target):
        honest = [row for row in arms["plain"] if row["sampling"]["temperature"]]
        report = audit([self.repeated(row, 0.9) for row in honest], target, "prompt-lookup")

        assert report.verdict == "biased"
        assert max(report.directions, key=report.directions.get) == "draft"

    def test_positions_without_a_proposal_bet_nothing(self, target):
        unseen = {
            "prompt_token_ids": [1],
            "output_token_ids": list(range(2, 30)),
            "sampling": {"temperature": 1.0, "top_p": 0.95, "min_p": 0.01, "top_k": 40},
        }

        assert audit([unseen], target, "prompt-lookup").directions["draft"] == 0.0


@pytest.mark.parametrize("rule", ["token", "block"])
def test_the_engine_s_own_traces_fit_its_outputs_and_its_draft_is_honest(
    rule, target, draft_folder
):
    engine = Engine.load(target, draft_folder, verification=rule, num_speculative_tokens=3)
    each = [SAMPLED.model_copy(update={"seed": index}) for index in range(30)]
    traced = [
        {
            "prompt_token_ids": list(result.prompt_token_ids),
            "output_token_ids": list(result.token_ids),
            "sampling": params.model_dump(mode="json"),
            "verification": rule,
            "trace": [asdict(step) for step in result.trace],
        }
        for result, params in zip(
            engine.generate(PROMPTS[:30], each, trace=True), each, strict=True
        )
    ]
    report = audit(traced, target, draft_folder)

    honesty = report.draft_honesty
    assert report.sampled["verdict"] != "biased"
    assert honesty["verdict"] != "dishonest", honesty["reasons"]
    assert honesty["declared"]["apart"] == 0
    assert honesty["draws"]["read"] > 300
    assert {"after rejection", "bonus"} <= set(report.carried_by["places"])
