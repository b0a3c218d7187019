"""Part 6: the draft for other engines, which know nothing of a list of tokens.

transformers, vLLM and llama.cpp take a plain Llama folder and sample from its whole vocabulary.
Rows of the head that were not trained would get probability that the trained ones should have. They
are therefore moved together along the mean of the draft's states, which lowers their logits by
about the same amount everywhere. By how much is settled where the overlap with the target is
largest: on texts of the training, so that the texts held out can still judge.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from specdecode.distil.acceptance import evaluate
from specdecode.distil.parts import Texts
from specdecode.distil.synthesise import target_laws
from specdecode.distil.texts import Conversation, read_page, write_page
from specdecode.durable import written_whole
from specdecode.errors import ConfigError, ModelNotFoundError
from specdecode.models import LoadedModel, fingerprint_folder, load_model
from specdecode.models.source import DRAFT_VOCABULARY, MODEL_FILE_PATTERNS

_SHIFTS = tuple(-0.5 * step for step in range(41))
_POSITIONS = 1024
_WEIGHTS = "model.safetensors"


def export(
    target: str | Path,
    draft: Path,
    out: Path,
    *,
    work: Path | None = None,
    device: str = "auto",
    dtype: str = "auto",
) -> dict[str, Any]:
    """Write a plain folder over the whole vocabulary.

    Args:
        target: the model the draft was made for.
        draft: its folder.
        out: new folder.
        work: folder of the parts; `draft/work` by default.
        device: see `load_model`.
        dtype: of the target.

    Returns:
        The shift of the untrained rows, and the exact evaluation of both forms.

    Raises:
        ConfigError: `out` is not empty.
        ModelNotFoundError: `draft` was not made by `specdecode distil`, or `work` is elsewhere.
    """
    work = work or draft / "work"
    closed = read_page(work / "synthesis.json")
    if closed is None or not (draft / "distil.json").is_file():
        raise ModelNotFoundError(
            f"'{draft}' is no finished draft of `specdecode distil`, or its texts are not in "
            f"'{work}': finish it, or name the folder of its texts with --work"
        )
    if out.exists() and any(out.iterdir()):
        raise ConfigError(f"'{out}' is not empty: name a new folder")
    model = load_model(target, device, dtype)
    texts = Texts(work / "shards", tuple(closed["shards"]), "")
    student = load_model(draft, str(model.device), "float32")
    shift, moved = 0.0, student.module.lm_head.weight.detach()
    listed = draft / DRAFT_VOCABULARY
    if listed.is_file():
        ids = json.loads(listed.read_text(encoding="utf-8"))["target_ids"]
        shift, moved = _settled(model, student, ids, texts.load(held_out=False))
    out.mkdir(parents=True, exist_ok=True)
    for file in sorted({f for pattern in MODEL_FILE_PATTERNS for f in draft.glob(pattern)}):
        if file.name not in (DRAFT_VOCABULARY, _WEIGHTS):
            shutil.copyfile(file, out / file.name)
    _write_weights(draft / _WEIGHTS, out / _WEIGHTS, moved)
    report = {
        "schema": "specdecode.distil-export/1",
        "shift": shift,
        "evaluation": evaluate(model, {"draft": draft, "exported": out}, texts.load(held_out=True)),
        "fingerprint": fingerprint_folder(out).to_json(),
    }
    write_page(out / "export.json", report)
    return report


def _settled(
    target: LoadedModel, student: LoadedModel, ids: Sequence[int], texts: Sequence[Conversation]
) -> tuple[float, Tensor]:
    """The best shift, and the head with it."""
    head = student.module.lm_head.weight.detach()
    outside = torch.ones(len(head), dtype=torch.bool, device=head.device)
    outside[torch.tensor(list(ids), device=head.device)] = False
    states, laws = _sample(target, student, texts)
    mean = torch.cat(states).mean(0)
    direction = mean / mean.square().sum()
    overlaps = torch.zeros(len(_SHIFTS), dtype=torch.float64)
    for own, law in zip(states, laws, strict=True):
        logits, along = own @ head.T, (own @ direction)[:, None] * outside
        for index, shift in enumerate(_SHIFTS):
            q = (logits + shift * along).softmax(-1)
            overlaps[index] += float(torch.minimum(law, q).sum())
    shift = _SHIFTS[int(overlaps.argmax())]
    return shift, head + shift * outside[:, None] * direction


def _sample(
    target: LoadedModel, student: LoadedModel, texts: Sequence[Conversation]
) -> tuple[list[Tensor], list[Tensor]]:
    """The draft's normed states and the target's laws, text by text."""
    states: list[Tensor] = []
    laws: list[Tensor] = []
    seen = 0
    for text in texts:
        if seen >= _POSITIONS:
            break
        if not len(text.scored):
            continue
        with torch.no_grad():
            read = text.tokens[None].to(student.device)
            hidden = student.module.model(input_ids=read, use_cache=False).last_hidden_state[0]
        states.append(hidden[text.scored - 1])
        laws.append(target_laws(target, text.tokens.tolist(), text.scored).to(hidden.device))
        seen += len(text.scored)
    return states, laws


def _write_weights(source: Path, out: Path, head: Tensor) -> None:
    from safetensors.torch import load_file, save

    weights = load_file(source)
    weights["lm_head.weight"] = head.to(weights["lm_head.weight"].dtype).cpu().contiguous()
    with written_whole(out) as file:
        file.write(save(weights, metadata={"format": "pt"}))
