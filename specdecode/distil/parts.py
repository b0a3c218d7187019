"""The parts of a distillation in their order, each with files of its own.

    work/shards/              1  texts and laws (`synthesise`)
    work/synthesis.json          their digests; once it is there, no text is added
    work/overlap.json         2  what was compared with what (`overlap`)
    work/training/            3  start, checkpoint, curve (`initial`, `train`)
    out/                      4  the draft (`folder`)
    out/distil.json           5  what it is worth and what it was made of (`acceptance`)

A part that is done is not done again. One that was killed goes on where its files end.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save
from torch import Tensor

from specdecode.distil.acceptance import evaluate
from specdecode.distil.begun import go_on
from specdecode.distil.budget import Budget
from specdecode.distil.folder import whole_head, write_draft
from specdecode.distil.initial import find_start
from specdecode.distil.overlap import check_overlap
from specdecode.distil.settings import SynthesisSettings, TrainingSettings
from specdecode.distil.student import Student
from specdecode.distil.synthesise import HELD_OUT, Writer, synthesise
from specdecode.distil.texts import Conversation, read_page, read_shard, write_page
from specdecode.distil.train import PLAN, Lesson, train
from specdecode.distil.vocabulary import frequent_tokens
from specdecode.distil.withheld import Withheld
from specdecode.durable import written_whole
from specdecode.errors import DataValidationError
from specdecode.models import LoadedModel, fingerprint_folder, sha256_file
from specdecode.workload.prompts import Prompt

Watch = Callable[[str, Mapping[str, Any]], None]
"""Called after each piece of work with the part's name and what was done."""

REPORT = "distil.json"


@dataclass(frozen=True)
class Texts:
    """What was written.

    Attributes:
        folder: of the shards.
        pages: of the shards.
        sha256: digest over them.
    """

    folder: Path
    pages: tuple[dict[str, Any], ...]
    sha256: str

    def load(self, *, held_out: bool) -> list[Conversation]:
        """The conversations held out, or those to train on.

        Raises:
            EvidenceError: a file was changed.
            DataValidationError: there is none.
        """
        pages = [p for p in self.pages if (p["stream"] == HELD_OUT) is held_out]
        texts = [text for page in pages for text in read_shard(self.folder, page)]
        if not any(len(text.scored) for text in texts):
            kind = "held out" if held_out else "to train on"
            raise DataValidationError(
                f"'{self.folder}' holds no texts {kind}: begin anew in another folder, with more "
                "--tokens or --minutes"
            )
        return texts


def write_texts(
    target: LoadedModel,
    work: Path,
    settings: SynthesisSettings,
    withheld: Withheld,
    *,
    prompts: Sequence[Prompt],
    is_enough: Callable[[], bool],
    watch: Watch,
) -> Texts:
    """Parts 1 and 2.

    Raises:
        ConfigError: the folder was begun with other settings.
        DataValidationError: texts meet what is withheld.
        EvidenceError: a file was changed.
    """
    shards = work / "shards"
    shards.mkdir(parents=True, exist_ok=True)
    given = [prompt.model_dump(mode="json") for prompt in prompts]
    go_on(
        work / "begun.json",
        {
            **settings.model_dump(mode="json"),
            "target": target.fingerprint.to_json(),
            "prompts_sha256": _sha256(given),
        },
    )
    closed = read_page(work / "synthesis.json")
    if closed is None:
        writer = Writer(target, settings, withheld)
        pages = synthesise(
            writer, shards, prompts, is_enough, lambda name: watch("synthesise", {"shard": name})
        )
        closed = {"schema": "specdecode.distil-texts/1", "shards": pages}
        write_page(work / "synthesis.json", closed)
    texts = Texts(shards, tuple(closed["shards"]), _sha256(closed["shards"]))
    compared = {
        "texts_sha256": texts.sha256,
        "withheld_sha256": _sha256([_digests(page.runs, page.whole) for page in withheld.pages]),
    }
    overlap = read_page(work / "overlap.json")
    if overlap is None or any(overlap[name] != value for name, value in compared.items()):
        training = [page for page in texts.pages if page["stream"] != HELD_OUT]
        found = check_overlap(shards, training, withheld, target.tokenizer)
        write_page(work / "overlap.json", {**found, **compared})
        watch("overlap", found)
    return texts


def train_draft(
    target: LoadedModel,
    texts: Texts,
    training: Path,
    out: Path,
    settings: TrainingSettings,
    *,
    budget: Budget,
    watch: Watch,
) -> dict[str, Any]:
    """Parts 3 to 5; returns the content of `distil.json`.

    Args:
        target: the model.
        texts: checked ones.
        training: folder of part 3.
        out: the draft's folder.
        settings: of the draft.
        budget: ends the training early.
        watch: told of every point of the curve.

    Raises:
        ConfigError: a folder was begun with other settings.
        EvidenceError: a file was changed.
    """
    made_of = {
        **settings.model_dump(mode="json"),
        "texts_sha256": texts.sha256,
        "target": target.fingerprint.to_json(),
    }
    training.mkdir(parents=True, exist_ok=True)
    go_on(training / "begun.json", made_of)
    report = read_page(out / REPORT)
    if report is not None and _is_of(report, made_of, out):
        return report
    lesson_texts, held_out = texts.load(held_out=False), texts.load(held_out=True)
    start = _start(target, lesson_texts, training, settings)
    ids, lens = start["ids"], start["lens"]
    rows = target.module.get_output_embeddings().weight.detach().float()
    initial_head = rows[ids.to(rows.device)] @ lens.T.to(rows.device)
    student = Student(target, start["layers"].tolist(), initial_head)
    trained_ids = None if settings.head is None else ids
    initial = training / "initial"
    write_draft(initial, target, student, whole_head(target, student, ids, lens), trained_ids)
    lesson = Lesson(lesson_texts, held_out, ids, target.vocab_size, settings)
    steps = train(student, lesson, training, budget, lambda point: watch("train", point))
    write_draft(out, target, student, whole_head(target, student, ids, lens), trained_ids)
    found = evaluate(target, {"initial": initial, "trained": out}, held_out)
    report = {
        "schema": "specdecode.distil/1",
        "made_of": made_of,
        "conversations": len(lesson_texts),
        "tokens": sum(len(text.scored) for text in lesson_texts),
        "start": read_page(training / "start.json"),
        "steps": steps,
        "planned_steps": (read_page(training / PLAN) or {}).get("steps"),
        "evaluation": found,
        "draft": fingerprint_folder(out).to_json(),
    }
    write_page(out / REPORT, report)
    watch("evaluate", found)
    budget.save()
    return report


def _start(
    target: LoadedModel, texts: Sequence[Conversation], training: Path, settings: TrainingSettings
) -> dict[str, Tensor]:
    """Where training starts, found once: the tokens of the head, the layers and the map."""
    path = training / "start.safetensors"
    page = read_page(training / "start.json")
    if page is None or not path.is_file() or sha256_file(path) != page["sha256"]:
        ids = frequent_tokens(texts, settings.head, target.vocab_size)
        start = find_start(target, texts, ids, settings.layers, settings.initial_positions)
        layers = torch.tensor(start.layers)
        raw = save({"ids": ids, "layers": layers, "lens": start.lens.cpu().contiguous()})
        with written_whole(path) as file:
            file.write(raw)
        page = {
            "layers": list(start.layers),
            "overlaps": start.overlaps,
            "sha256": hashlib.sha256(raw).hexdigest(),
        }
        write_page(training / "start.json", page)
    found: dict[str, Tensor] = load_file(path)
    return found


def _is_of(report: Mapping[str, Any], made_of: Mapping[str, Any], out: Path) -> bool:
    """Whether a report is that of the draft which lies there and would be made again."""
    if report.get("made_of") != made_of or not (out / "config.json").is_file():
        return False
    return bool(report.get("draft") == fingerprint_folder(out).to_json())


def _digests(runs: Mapping[int, frozenset[str]], whole: frozenset[str]) -> list[Any]:
    return [sorted((size, sorted(found)) for size, found in runs.items()), sorted(whole)]


def _sha256(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
