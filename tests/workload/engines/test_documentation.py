"""The page on engines names what the code reads."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from specdecode.workload.engines import ENGINES, llama_cpp, sglang, tgi, vllm

PAGE = (Path(__file__).parents[3] / "docs" / "engines.md").read_text(encoding="utf-8")
ENGINE_FILES = {"vllm": vllm, "sglang": sglang, "llama.cpp": llama_cpp, "tgi": tgi}


def counters(module):
    values = dataclasses.asdict(module.COUNTERS).values()
    return [name for names in values if isinstance(names, tuple) for name in names]


@pytest.mark.parametrize(
    ("engine", "name"), [(e, n) for e, module in ENGINE_FILES.items() for n in counters(module)]
)
def test_every_counter_is_on_the_page(engine, name):
    bare = name.partition(":")[2] or name.removesuffix("_sum")
    before_0_9 = "gpu_prefix_cache_…" if bare.startswith("gpu_prefix_cache_") else bare
    shortened = "…" + bare.removeprefix("spec_decode_")

    assert any(f"`{shown}`" in PAGE for shown in (bare, shortened, before_0_9)), engine


@pytest.mark.parametrize(
    "path", sorted({p.partition("?")[0] for a in ENGINES.values() for p in a.paths})
)
def test_every_address_is_on_the_page(path):
    assert path in PAGE


@pytest.mark.parametrize("name", ENGINES)
def test_every_engine_is_on_the_page(name):
    assert name.lower() in PAGE.lower()
