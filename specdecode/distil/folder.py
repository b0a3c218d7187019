"""Part 5: the draft as a folder that `Engine.load(target, draft=FOLDER)` takes.

A plain Llama folder with the target's tokenizer. Its head has a row for every token, and
`draft_vocabulary.json` says which of them were trained; the engine cuts it to those.
"""

from __future__ import annotations

import copy
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import LlamaForCausalLM

from specdecode.distil.student import Student
from specdecode.durable import written_whole
from specdecode.models import LoadedModel
from specdecode.models.source import DRAFT_VOCABULARY, MODEL_FILE_PATTERNS

_OF_THE_MODEL = ("config.json", DRAFT_VOCABULARY)


def write_draft(
    out: Path, target: LoadedModel, student: Student, head: Tensor, ids: Tensor | None
) -> None:
    """Write the draft's files into a folder, each whole or not at all.

    Args:
        out: the folder; other files in it stay.
        target: whose tokenizer it gets.
        student: layers and norm.
        head: float `[V, H]`, a row for every token.
        ids: the tokens it may propose; None for all.
    """
    config = copy.deepcopy(student.config)
    config.dtype = target.dtype
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    weights = {f"model.{name}": value for name, value in student.body.state_dict().items()}
    weights["lm_head.weight"] = head
    stored = {name: value.to(target.dtype).cpu().clone() for name, value in weights.items()}
    model.load_state_dict(stored, strict=True, assign=True)
    model.generation_config = copy.deepcopy(target.module.generation_config)
    out.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=out, prefix=".draft."))
    try:
        model.save_pretrained(scratch)
        copy_tokenizer(target.path, scratch)
        vocabulary = scratch / DRAFT_VOCABULARY
        if ids is not None:
            vocabulary.write_text(json.dumps({"target_ids": ids.tolist()}), encoding="utf-8")
        else:
            (out / DRAFT_VOCABULARY).unlink(missing_ok=True)
        for file in sorted(scratch.iterdir()):
            with written_whole(out / file.name) as whole, file.open("rb") as made:
                shutil.copyfileobj(made, whole)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def copy_tokenizer(source: Path, out: Path) -> None:
    """Copy the files of a model folder that are neither weights nor config."""
    files = {file for pattern in MODEL_FILE_PATTERNS for file in source.glob(pattern)}
    for file in sorted(files):
        known = ".safetensors" in file.name or file.name in _OF_THE_MODEL
        if not known and not (out / file.name).exists():
            shutil.copyfile(file, out / file.name)


def whole_head(target: LoadedModel, student: Student, ids: Tensor, lens: Tensor) -> Tensor:
    """A row for every token: the trained ones, and elsewhere the target's through the map.

    Returns:
        float32 `[V, H]`.
    """
    rows: Any = target.module.get_output_embeddings().weight.detach().float()
    head: Tensor = rows @ lens.T.to(rows.device)
    head[ids.to(head.device)] = student.head.detach()
    return head
