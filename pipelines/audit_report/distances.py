"""How far each fault bends the study's law, by enumeration where it can be done."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pipelines.audit_report.detection import speculative
from pipelines.audit_report.models import study_models
from pipelines.audit_report.settings import GAMMA, REPLY
from pipelines.audit_report.store import code_sha256, keep, kept
from specdecode import Engine, SamplingParams
from specdecode.audit.faults import FAULTS, Fault, plant
from specdecode.audit.faults.distance import Tree, TreeLogits, distance, trees
from specdecode.audit.faults.stale import stale_distance
from specdecode.decoding.scoring import teacher_forced
from specdecode.models import LoadedModel

REPLIES, TOKENS = 3, REPLY
"""Replies of the target whose positions are enumerated, and tokens of each: what the audit reads.

Some faults fade on the way, such as those of a penalty on tokens that have all occurred by then.
"""
STALE_REPLIES, STALE_TOKENS = 64, REPLY
_BATCH_TOKENS = 8192

EXACT, GIVEN_CACHE = "exact, given the tokens before", "of the laws drawn from, given the cache"


def total_variations(names: Sequence[str], data: Path) -> dict[str, dict[str, Any]]:
    """Mean, standard error, largest and basis of the distance per token, by fault.

    Args:
        names: faults with the same sampling, for which the trees are made once.
        data: folder of what is kept.
    """
    settings = {"code": code_sha256(), "gamma": GAMMA, "replies": REPLIES, "tokens": TOKENS}
    found: dict[str, dict[str, Any]] = {}
    replies: list[list[Tree]] = []
    for name in names:
        path = data / "distances" / f"{name}.json"
        old = kept(path, settings)
        if old is None:
            if not replies and not _is_stale(FAULTS[name]):
                replies = _replies(FAULTS[name], data)
            old = _measured(FAULTS[name], replies, data)
            keep(path, settings, old)
        found[name] = dict(old)
    return found


def alike(names: Iterable[str]) -> list[list[str]]:
    """Names of faults by sampling."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(repr(sorted(FAULTS[name].sampling.items())), []).append(name)
    return list(groups.values())


def tree_logits(target: LoadedModel, draft: LoadedModel) -> TreeLogits:
    """Raw logits of both models after a context and each beginning of each block."""

    def logits(context: list[int], blocks: Tensor) -> tuple[Tensor, Tensor]:
        # The last draft token is followed by a row of the target's; what stands there is not read.
        pairs = [(context, [*block, 0]) for block in blocks.tolist()]
        by_target = teacher_forced(target, pairs, batch_tokens=_BATCH_TOKENS)
        by_draft = teacher_forced(
            draft, [(c, block[:-1]) for c, block in pairs], batch_tokens=_BATCH_TOKENS
        )
        return (
            torch.stack([rows for _, rows in by_target]),
            torch.stack([rows for _, rows in by_draft]),
        )

    return logits


def _is_stale(fault: Fault) -> bool:
    return fault.target is not None and fault.target.stale_cache


def _replies(fault: Fault, data: Path) -> list[list[Tree]]:
    target, draft = study_models(data / "models")
    params = SamplingParams(**fault.sampling, ignore_eos=True, max_tokens=TOKENS)
    each = [params.model_copy(update={"seed": seed}) for seed in range(REPLIES)]
    logits = tree_logits(target, draft)
    return [
        trees(logits, list(r.prompt_token_ids), list(r.token_ids), target.vocab_size, GAMMA)
        for r in Engine.load(target=target).generate(_prompts(REPLIES), each)
    ]


def _measured(fault: Fault, replies: list[list[Tree]], data: Path) -> dict[str, Any]:
    params = SamplingParams(**fault.sampling, ignore_eos=True, max_tokens=STALE_TOKENS)
    if not _is_stale(fault):
        return asdict(distance(fault, fault.fits[0], replies, params)) | {"basis": EXACT}
    target, draft = study_models(data / "models")
    engine = plant(speculative(target, draft, fault.fits[0]), fault)
    return asdict(stale_distance(engine, _prompts(STALE_REPLIES), params)) | {"basis": GIVEN_CACHE}


def _prompts(count: int) -> list[list[int]]:
    return [[1 + n % 9, 1 + (3 * n) % 9, 1 + (7 * n) % 9, 1 + (5 * n) % 9] for n in range(count)]
