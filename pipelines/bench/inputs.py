"""What the bench decodes: prompts of the evaluation set, and draft models made from the target."""

from __future__ import annotations

import shutil
from pathlib import Path

import torch

from pipelines.bench.turns import BenchPrompt
from specdecode.models import LoadedModel, load_model
from specdecode.workload.compile import encode
from specdecode.workload.prompts import load_prompts

PROMPTS = Path("eval_sets/prompts")
_LONGEST = 400  # tokens: a bench of decoding, not of prompt processing


def bench_prompts(target: LoadedModel, count: int) -> list[BenchPrompt]:
    """`count` prompts, spread evenly over the categories, in a fixed order.

    Speed decides nothing here, so prompts of all splits may be used; replies are not looked at.
    """
    by_category: dict[str, list[BenchPrompt]] = {}
    for prompt in load_prompts(PROMPTS):
        ids = encode(prompt, target.tokenizer)
        if len(ids) <= _LONGEST:
            by_category.setdefault(prompt.category, []).append(BenchPrompt(prompt.prompt_id, ids))
    chosen: list[BenchPrompt] = []
    turn = 0
    while len(chosen) < count:
        left = [group[turn] for group in by_category.values() if turn < len(group)]
        if not left:
            break
        chosen += left
        turn += 1
    return chosen[:count]


def rounded_draft(target: LoadedModel, levels: int, folder: Path) -> LoadedModel:
    """The target with its decoder weights rounded, as an independent draft model.

    It costs as much as the target, which no real draft does; what it gives is a known agreement
    with the target (the more levels, the higher) and weights that both engines can load.

    Args:
        target: where the weights come from.
        levels: values that the weights of a group of 32 along the input may take.
        folder: where the draft model is written.
    """
    shutil.copytree(target.path, folder)
    draft = load_model(folder, str(target.device), str(target.dtype).removeprefix("torch."))
    with torch.inference_mode():
        for name, weight in draft.module.named_parameters():
            if ".layers." in name and weight.dim() == 2:
                groups = weight.float().reshape(weight.shape[0], -1, 32)
                low = groups.amin(-1, keepdim=True)
                scale = ((groups.amax(-1, keepdim=True) - low) / (levels - 1)).clamp(min=1e-8)
                rounded = ((groups - low) / scale).round() * scale + low
                weight.copy_(rounded.reshape(weight.shape))
    draft.module.save_pretrained(folder)
    return load_model(folder, str(target.device), str(target.dtype).removeprefix("torch."))
