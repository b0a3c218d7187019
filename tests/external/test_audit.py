"""The audit of an external engine from requests to evidence, with this engine in its place."""

from __future__ import annotations

import json

import httpx
import pytest

from pipelines.external import __main__ as program
from pipelines.external import audit
from pipelines.external.models import Models, prune_folder
from pipelines.external.requests import row_of
from specdecode import Engine
from specdecode.errors import ConfigError, MissingPrerequisiteError
from tests.tiny_models import write_tiny_model


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    home = tmp_path_factory.mktemp("models")
    target = write_tiny_model(home / "target")
    prune_folder(target, home / "draft", [0, 1])
    return Models(target, home / "draft", None, None)


@pytest.fixture
def instead(monkeypatch, models, tmp_path):
    """This engine answers in place of vLLM; with the fault it is the draft that answers."""
    monkeypatch.setattr(audit, "environment", lambda _: tmp_path / "vllm")
    answer = lambda arm, _, requests: reply(arm, requests, models)  # noqa: E731
    monkeypatch.setattr(audit, "collect", answer)


def reply(arm, requests, models):
    engine = Engine.load(models.draft if audit.arms(models)[arm].faulty else models.target)
    made = engine.generate([a.prompt for a in requests], [a.params for a in requests])
    rows = []
    for ask, result in zip(requests, made, strict=True):
        choice = {
            "prompt_token_ids": ask.prompt,
            "token_ids": list(result.token_ids),
            "finish_reason": result.finish_reason,
        }
        stats = {"num_spec_steps": 2, "num_draft_tokens": 8, "num_accepted_draft_tokens": 3}
        body = {"choices": [choice]}
        if arm != audit.BASELINE:
            body["metrics"] = {"speculative_decoding": stats}
        answer = httpx.Response(200, json=body)
        if arm != audit.BASELINE and ask.params.min_p:
            answer = httpx.Response(400, json={"error": {"message": "no min_p"}})
        rows.append(row_of(ask, arm, answer))
    return {"version": "9.9", "rule": {"seen": "clean", "findings": []}, "rows": rows}


def evidence_of(models, chosen, rounds=16):
    return audit.run(models, chosen, rounds=rounds, seed=5, alpha=0.01, threads=1)


@pytest.mark.slow
def test_the_fault_is_found_and_neither_plain_nor_mended_decoding_is_blamed(instead, models):
    found = evidence_of(models, ["draft_model", "draft_model-mended"])

    verdicts = {name: arm["verdict"] for name, arm in found["arms"].items()}
    assert verdicts == {
        "plain": "lossless",
        "draft_model": "biased",
        "draft_model-mended": "lossless",
    }
    drafted = found["arms"]["draft_model-mended"]
    assert drafted["acceptance"]["acceptance_rate"] == 3 / 8
    assert drafted["acceptance"]["mean_acceptance_length"] == 2.5
    assert drafted["refused"] == {"t1-min_p: HTTP 400: no min_p": 16}
    assert "t1-min_p" not in drafted["replies"]
    assert "t1-top_k" not in found["arms"]["draft_model"]["replies"], "that would end vLLM"
    assert drafted["replies"]["t1-top_k"] == 16
    assert found["arms"]["plain"]["acceptance"] is None
    assert found["arms"]["plain"]["refused"] == {}


def test_the_evidence_names_no_place_of_this_machine(instead, models):
    text = json.dumps(evidence_of(models, ["draft_model"], rounds=1))

    assert str(models.target.parent) not in text
    assert '"the draft"' in text


def test_a_verdict_other_than_expected_is_an_exit_code(instead, models, tmp_path, monkeypatch):
    monkeypatch.setattr("pipelines.external.models.prepare", lambda _: models)
    out = tmp_path / "new" / "audit.json"
    few = ["audit", "--arms", "draft_model", "--rounds", "1", "--out", str(out)]

    assert program.main(few) == 1  # undecided
    assert json.loads(out.read_text())["arms"]["plain"]["verdict"] == "undecided"


def test_an_arm_that_is_not_there_is_refused(models):
    with pytest.raises(ConfigError, match=r"no arm 'eagle'.*draft_model"):
        evidence_of(models, ["eagle"])


def test_without_vllm_it_says_how_to_install_it(models, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MissingPrerequisiteError, match="make external ENGINES=vllm"):
        evidence_of(models, [])
