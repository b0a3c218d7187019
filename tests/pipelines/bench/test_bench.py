"""The whole bench on a random model of a few thousand parameters."""

from __future__ import annotations

import json
import sys

import pytest
import torch

from pipelines.bench import __main__ as program
from pipelines.bench import alternatives, growth, table, verify
from pipelines.bench.arms import EngineArm
from pipelines.bench.inputs import bench_prompts, rounded_draft
from specdecode import Engine
from specdecode.errors import EngineError
from specdecode.models import load_model
from specdecode.workload.prompts import load_prompts
from tests.e2e.tiny_model import write_tiny_model


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    texts = [prompt.text for prompt in load_prompts("eval_sets/prompts")]
    return write_tiny_model(tmp_path_factory.mktemp("bench") / "tiny", texts=texts)


def test_a_rounded_draft_keeps_so_many_values_a_group(tiny, tmp_path):
    target = load_model(tiny, dtype="float32")

    draft = rounded_draft(target, 5, tmp_path / "draft")

    for name, weight in draft.module.named_parameters():
        original = target.module.get_parameter(name)
        if ".layers." in name and weight.dim() == 2:
            groups = weight.reshape(weight.shape[0], -1, 32)
            assert all(len(g.unique()) <= 5 for g in groups.flatten(0, 1))
            assert not torch.equal(weight, original)
        else:
            assert torch.equal(weight, original)


def test_prompts_come_from_every_category_in_turn(tiny):
    target = load_model(tiny)

    prompts = bench_prompts(target, 16)

    assert len({p.name.rsplit("-", 2)[0] for p in prompts}) >= 14
    assert prompts == bench_prompts(target, 16)
    assert all(0 < len(p.ids) <= 400 for p in prompts)


def test_an_arm_whose_drafter_failed_has_no_time(tiny, monkeypatch):
    engine = Engine.load(tiny, "prompt-lookup")

    def broken(*_):
        raise RuntimeError("broken")

    monkeypatch.setattr(engine.drafter, "propose", broken)

    with pytest.raises(EngineError, match=r"arm 'copies': the drafter failed .*broken"):
        EngineArm("copies", engine).run([5, 6, 7], 4, 0.0, 1)


def test_blocks_of_a_larger_vocabulary_overlap_as_before():
    generator = torch.Generator().manual_seed(0)
    p = torch.randn(3, 5, 40, generator=generator).softmax(-1)
    q = torch.randn(3, 4, 40, generator=generator).softmax(-1)
    recorded = [verify.Laws(torch.zeros(1, 4, dtype=torch.int64), q[i : i + 1], p[i : i + 1]) for i in range(3)]  # fmt: skip # noqa: E501

    wide = verify._laid_out(recorded, 130, batch=2, gamma=3)[0]

    assert wide.target.shape == (2, 4, 130)
    assert wide.draft.shape == (2, 3, 130)
    overlap = torch.minimum(wide.draft[0], wide.target[0, :3]).sum(-1)
    torch.testing.assert_close(overlap, torch.minimum(q[0, :3], p[0, :3]).sum(-1))
    torch.testing.assert_close(wide.target.sum(-1), torch.ones(2, 4))


@pytest.mark.slow
def test_the_bench_writes_its_report_and_its_picture(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(verify, "VOCABULARIES", (512, 1024))
    monkeypatch.setattr(verify, "BATCHES", (1, 2))
    monkeypatch.setattr(growth, "BATCHES", (1, 2))
    monkeypatch.setattr(growth, "GAMMAS", (1, 3))
    monkeypatch.setattr(table, "GAMMAS", (1, 2))
    monkeypatch.setattr(alternatives, "LLAMA_CPP", "no_such_package")
    report, picture = tmp_path / "bench.json", tmp_path / "bench.png"
    options = ["--target", str(tiny), "--quick", "--report", str(report), "--picture", str(picture)]
    monkeypatch.setattr(sys, "argv", ["bench", *options])

    assert program.main() == 0

    found = json.loads(report.read_text(encoding="utf-8"))
    named = {
        "decode": ("speculative_vs_assisted", "plain_vs_generate", "speculative_vs_plain"),
        "verify": ("block_vs_token",),
        "block_efficiency": ("block_vs_token",),
    }
    for section, names in named.items():
        for name in names:
            ratio = found[section][name]
            assert 0 < ratio["low"] <= ratio["ratio"] <= ratio["high"]
            assert ratio["n"] >= 2
    assert set(found["verify"]["share_of_forward"]) == {"token", "block"}
    assert {"greedy", "sampled"} <= set(found["decode"]["speculative_vs_plain"])
    assert len(found["growth"]["cells"]) == 4
    assert found["alternatives"]["llama_cpp"]["missing"]
    assert {row["section"] for row in found["rows"]} == {
        "decode", "verify", "table", "growth", "alternatives",
    }  # fmt: skip
    assert picture.stat().st_size > 10_000
