"""Part 3: train the draft on the stored laws.

AdamW, warm-up and cosine. A checkpoint is written every minute or so, always where a point of the
curve ends, so that a run that was killed goes on to the same bytes. Only a time limit makes the
bytes depend on the machine: the number of steps is settled once, early, by how long a step takes.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from specdecode.distil.batches import lookup_of, pieces, steps_of
from specdecode.distil.budget import TRAINING, Budget
from specdecode.distil.checkpoint import load_checkpoint, save_checkpoint, truncate_curve
from specdecode.distil.head import head_loss
from specdecode.distil.settings import TrainingSettings
from specdecode.distil.student import Student
from specdecode.distil.texts import Conversation, read_page, write_page
from specdecode.errors import NumericalError
from specdecode.workload.progress import progress

CHECKPOINT, CURVE, PLAN = "checkpoint.safetensors", "curve.jsonl", "plan.json"
POINT_STEPS = 20
"""Steps of a point of the curve."""
_HELD_OUT_POINTS = 5
_CHECKPOINT_S = 60.0
_CLIP = 1.0
_LOWEST_RATE = 0.05

WatchPoint = Callable[[dict[str, float]], None]
"""Called with each point of the curve."""


@dataclass(frozen=True)
class Lesson:
    """What a draft is trained with.

    Attributes:
        texts: to train on.
        held_out: whose overlap stands in the curve; never trained on.
        ids: int64 `[M]`, the tokens of the head.
        vocab_size: of the target.
        settings: how.
    """

    texts: Sequence[Conversation]
    held_out: Sequence[Conversation]
    ids: Tensor
    vocab_size: int
    settings: TrainingSettings


def train(student: Student, lesson: Lesson, folder: Path, budget: Budget, watch: WatchPoint) -> int:
    """Train, or go on training; returns the steps done.

    Args:
        student: as it starts; its weights change in place.
        lesson: texts and settings.
        folder: of checkpoint, curve and plan.
        budget: ends the training early.
        watch: sees every point of the curve.

    Raises:
        NumericalError: the loss is no number any more.
    """
    run = _Run(student, lesson)
    checkpoint = folder / CHECKPOINT
    if checkpoint.is_file():
        run.step = load_checkpoint(checkpoint, run.trained, run.optimizer)
    truncate_curve(folder / CURVE, run.step)
    plan = read_page(folder / PLAN)
    per_pass = len(run.plan_pass(0))
    total = lesson.settings.passes * per_pass if plan is None else int(plan["steps"])
    begun, saved, first = time.monotonic(), time.monotonic(), run.step
    with progress("training steps", total, run.step) as advance:
        while run.step < total:
            point = run.advance(total, min(POINT_STEPS, total - run.step), advance)
            with (folder / CURVE).open("a", encoding="utf-8") as file:
                file.write(json.dumps(point, sort_keys=True) + "\n")
            if plan is None:
                pace = (time.monotonic() - begun) / (run.step - first)
                plan = {"steps": _affordable(total, run.step, pace, budget)}
                write_page(folder / PLAN, plan)
                total = int(plan["steps"])
            if run.step >= total or budget.is_over(TRAINING):
                total = run.step
            if run.step == total or time.monotonic() - saved > _CHECKPOINT_S:
                save_checkpoint(checkpoint, run.trained, run.optimizer, run.step)
                budget.save()
                saved = time.monotonic()
            watch(point)
    return run.step


def _affordable(total: int, done: int, pace: float, budget: Budget) -> int:
    left = budget.left_s(TRAINING)
    return total if left is None else max(done, min(total, done + int(0.97 * left / pace)))


class _Run:
    """A student, its optimiser and where they are."""

    def __init__(self, student: Student, lesson: Lesson) -> None:
        self.student, self.lesson, self.step = student, lesson, 0
        self.trained = student.trained()
        settings = lesson.settings
        self.optimizer = torch.optim.AdamW(
            self.trained.values(),
            lr=settings.learning_rate,
            betas=(0.9, 0.95),
            weight_decay=settings.weight_decay,
            fused=True,
        )
        self._lookup = lookup_of(lesson.ids, lesson.vocab_size)
        self._device = student.head.device
        self._lengths = [len(text.tokens) for text in lesson.texts]
        self._passes: dict[int, list[list[int]]] = {}

    def plan_pass(self, number: int) -> list[list[int]]:
        """Which texts each step of a pass reads."""
        settings = self.lesson.settings
        if number not in self._passes:
            self._passes = {
                number: steps_of(self._lengths, settings.batch_tokens, settings.seed, number)
            }
        return self._passes[number]

    def advance(self, total: int, steps: int, advance: Callable[[str], None]) -> dict[str, float]:
        """Do some steps; returns their point of the curve."""
        sums = torch.zeros(3, dtype=torch.float64)
        for _ in range(steps):
            rate, kl_weight = self._schedule(total)
            sums += self._one(rate, kl_weight)
            self.step += 1
            advance(f"overlap {float(1 - sums[0] / sums[2]):.3f}")
        point = {
            "step": self.step,
            "learning_rate": rate,
            "kl_weight": kl_weight,
            "tv": round(float(sums[0] / sums[2]), 6),
            "kl": round(float(sums[1] / sums[2]), 6),
            "overlap": round(1 - float(sums[0] / sums[2]), 6),
        }
        if self.lesson.held_out and (
            (self.step // POINT_STEPS) % _HELD_OUT_POINTS == 0 or self.step >= total
        ):
            point["held_out_overlap"] = round(self._held_out(), 6)
        return point

    def _schedule(self, total: int) -> tuple[float, float]:
        settings, step = self.lesson.settings, self.step
        warm = min(1.0, (step + 1) / settings.warm_up_steps) if settings.warm_up_steps else 1.0
        share = step / max(1, total)
        cosine = _LOWEST_RATE + (1 - _LOWEST_RATE) * 0.5 * (1 + math.cos(math.pi * share))
        weight = settings.kl_start + (settings.kl_end - settings.kl_start) * share
        return settings.learning_rate * warm * cosine, weight

    def _one(self, rate: float, kl_weight: float) -> Tensor:
        """One step; returns sums of distance and divergence over rows, and their number."""
        number, index = self._place()
        chosen = [self.lesson.texts[i] for i in self.plan_pass(number)[index]]
        rows = sum(len(text.scored) for text in chosen)
        sums = torch.zeros(3, dtype=torch.float64)
        if not rows:
            return sums
        self.optimizer.zero_grad(set_to_none=True)
        for piece in pieces(chosen, self._lookup, self._device):
            states = self.student.hidden(piece.tokens).flatten(0, 1)[piece.rows]
            loss, terms = head_loss(states, self.student.head, piece.wanted, kl_weight)
            (loss * (len(piece.rows) / rows)).backward()
            seen = [float(terms.tv), float(terms.kl), 1.0]
            sums += torch.tensor(seen, dtype=torch.float64) * len(piece.rows)
        norm = torch.nn.utils.clip_grad_norm_(self.trained.values(), _CLIP)
        if not bool(torch.isfinite(norm)):
            raise NumericalError(
                f"the gradient of training step {self.step + 1} is not finite: lower "
                "--learning-rate, remove the training folder, and start again on the same texts"
            )
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        return sums

    def _place(self) -> tuple[int, int]:
        """Pass and step in it; passes may differ in their number of steps."""
        number, index = 0, self.step
        while index >= len(self.plan_pass(number)):
            index -= len(self.plan_pass(number))
            number += 1
        return number, index

    def _held_out(self) -> float:
        total, rows = 0.0, 0
        with torch.no_grad():
            for piece in pieces(self.lesson.held_out, self._lookup, self._device):
                terms = piece.distance(self.student.hidden(piece.tokens), self.student.head)
                total += (1 - float(terms.tv)) * len(piece.rows)
                rows += len(piece.rows)
        return total / max(1, rows)
