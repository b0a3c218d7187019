"""`measure` drives the real engine: a tiny random model, every arm, rows as in the contract."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from specdecode import Engine
from specdecode.measurement.spool import RowSpool
from specdecode.models import load_model
from specdecode.workload.compile import compile_prompts, load_tokenizer
from specdecode.workload.offline import measure
from specdecode.workload.sampling import settings_from
from tests.workload.examples import prompt

MANIFEST = "c" * 64
WORDS = [f"w{i}" for i in range(60)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    torch.set_num_threads(1)
    tokenizer = Tokenizer(
        models.WordLevel({"[END]": 0, "[UNK]": 1} | {w: i + 2 for i, w in enumerate(WORDS)})
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="[END]")  # noqa: S106 - no secret
    fast.chat_template = "{% for m in messages %}{{ m['content'] + ' ' }}{% endfor %}"
    fast.save_pretrained(tmp_path / "model")
    config = LlamaConfig(
        vocab_size=62,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=128,
        tie_word_embeddings=True,
        eos_token_id=0,
        bos_token_id=0,
    )
    with torch.random.fork_rng():
        torch.manual_seed(3)
        LlamaForCausalLM(config).save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def prompts(folder: Path) -> pa.Table:
    tokenizer, context_tokens = load_tokenizer(folder)
    return compile_prompts(
        [prompt(f"p{i}", " ".join(WORDS[i * 7 : i * 7 + 7])) for i in range(3)],
        tokenizer,
        context_tokens=context_tokens,
        max_tokens=16,
        split_seed=1,
        order_seed=1,
    )


def test_greedy_rows_agree_across_arms_and_sampled_rows_have_their_own_draws(
    folder: Path, prompts: pa.Table, tmp_path: Path
) -> None:
    target = load_model(str(folder), device="cpu", dtype="float32")
    engines = {
        "plain": Engine.load(target=target, draft=None),
        "token": Engine.load(
            target=target, draft="early-exit:1", verification="token", num_speculative_tokens=3
        ),
        "block": Engine.load(
            target=target, draft="early-exit:1", verification="block", num_speculative_tokens=3
        ),
    }
    settings = settings_from(
        [
            {"name": "greedy", "temperature": 0, "max_tokens": 16, "ignore_eos": True},
            {"name": "sampled", "max_tokens": 16, "ignore_eos": True},
        ]
    )

    with RowSpool(tmp_path / "spool", MANIFEST) as spool:
        done = measure(prompts, engines, settings, spool, master_seed=1, manifest_sha256=MANIFEST)
        rows = spool.records()

    assert (done.written, done.failed) == (18, 0)
    for prompt_id in ("p0", "p1", "p2"):
        mine = [row for row in rows if row.prompt_id == prompt_id]
        greedy = {tuple(r.output_token_ids or ()) for r in mine if r.sampling_name == "greedy"}
        sampled = {tuple(r.output_token_ids or ()) for r in mine if r.sampling_name == "sampled"}
        assert len(greedy) == 1
        assert len(sampled) == 3
    for row in rows:
        assert row.output_tokens == 16
        assert row.finish_reason == "length"
        assert (row.drafted or 0) > 0 or row.arm == "plain"


def test_a_drafter_that_fails_costs_the_rows_of_its_arm(
    folder: Path, prompts: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = load_model(str(folder), device="cpu", dtype="float32")
    engines = {"plain": Engine.load(target), "block": Engine.load(target, "early-exit:1")}

    def broken(*_: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(engines["block"].drafter, "propose", broken)
    settings = settings_from([{"name": "sampled", "max_tokens": 4, "ignore_eos": True}])
    with RowSpool(tmp_path / "spool", MANIFEST) as spool:
        done = measure(prompts, engines, settings, spool, master_seed=1, manifest_sha256=MANIFEST)
        rows = spool.records()

    assert (done.written, done.failed) == (6, 3)
    assert all(
        ("propose: RuntimeError: broken" in (row.error or "")) == (row.arm == "block")
        for row in rows
    )
