"""A workspace in which all inputs of `measure` lie ready, made in a second."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from pipelines import environment
from specdecode.workload.compile import PROMPTS_SCHEMA
from tests.tiny_models import write_tiny_model

ROOT = Path(__file__).resolve().parents[2]
SHIPPED: dict[str, Any] = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
MANIFEST = "a" * 64
COUNT = 5
ARMS = ["plain", "token"]


def parameters() -> dict[str, Any]:
    """The shipped ones, with a tiny target and short replies."""
    sampling = [
        {"name": "greedy", "temperature": 0.0, "ignore_eos": True},
        {"name": "sampled", "temperature": 1.0, "ignore_eos": True},
    ]
    return {
        **SHIPPED,
        "target": {"source": "tiny", "dtype": "float32"},
        "draft": {"source": "early-exit:1"},
        "decoding": {
            **SHIPPED["decoding"],
            "num_speculative_tokens": 2,
            "arms": ARMS,
            "sampling": sampling,
            "max_tokens": 4,
            "device": "cpu",
            "threads": 1,
        },
        "prompts": {**SHIPPED["prompts"], "limit": None},
    }


def prompt(number: int) -> dict[str, Any]:
    """One row of the compiled table; what `measure` does not read is empty."""
    blank = {"turns": ["x"], "pii_hits": []}
    row: dict[str, Any] = {field.name: blank.get(field.name) for field in PROMPTS_SCHEMA}
    filler = {pa.string(): "x", pa.int32(): 0, pa.bool_(): False, pa.float64(): 0.0}
    row |= {
        field.name: filler[field.type]
        for field in PROMPTS_SCHEMA
        if not field.nullable and row[field.name] is None and field.type in filler
    }
    ids = [2 + (number * 3 + place) % 20 for place in range(3 + number)]
    return row | {
        "prompt_id": f"p{number}",
        "split": "development",
        "order_index": number,
        "category": ("chat", "open_qa")[number % 2],
        "language": "en",
        "difficulty": "normal",
        "prompt_token_ids": ids,
        "prompt_tokens": len(ids),
    }


def write_workspace(folder: Path) -> Path:
    """Writes everything `measure` reads."""
    for name in ("data", "models/draft", "reports/state"):
        (folder / name).mkdir(parents=True)
    params = parameters()
    (folder / "params.yaml").write_text(yaml.safe_dump(params))
    table = pa.Table.from_pylist([prompt(i) for i in range(COUNT)], PROMPTS_SCHEMA)
    pq.write_table(table, folder / "data/prompts.parquet")
    write_tiny_model(folder / "models/target")
    documents = {
        "models/draft/manifest.json": {"folder": None, "source": params["draft"]["source"]},
        "reports/manifest.json": {"manifest_sha256": MANIFEST, "entries": {}},
        "reports/state/environment.json": environment.describe(params["decoding"]["threads"]),
    }
    for name, document in documents.items():
        (folder / name).write_text(json.dumps(document))
    return folder
