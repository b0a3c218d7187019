"""A whole distillation as one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from specdecode.distil.budget import WRITING, Budget
from specdecode.distil.parts import Watch, train_draft, write_texts
from specdecode.distil.settings import SynthesisSettings, TrainingSettings
from specdecode.distil.withheld import Withheld
from specdecode.models import load_model
from specdecode.workload.prompts import Prompt


def distil(
    target: str | Path,
    out: Path,
    *,
    withheld: Withheld,
    work: Path | None = None,
    synthesis: SynthesisSettings | None = None,
    training: TrainingSettings | None = None,
    prompts: Sequence[Prompt] = (),
    minutes: float | None = None,
    device: str = "auto",
    dtype: str = "auto",
    watch: Watch | None = None,
) -> dict[str, Any]:
    """Make a draft for a target out of what the target itself writes; go on if it was killed.

    Args:
        target: model source; a Llama with a chat template.
        out: folder of the draft.
        withheld: prompts that must not be trained on.
        work: folder of the parts; `out/work` by default.
        synthesis: what is written.
        training: what is trained.
        prompts: user turns beside those the target writes.
        minutes: time limit over all runs; None trains on all the tokens, in all passes.
        device: see `load_model`.
        dtype: of the target; the draft is trained in float32.
        watch: sees every piece of work.

    Returns:
        The content of `distil.json`.

    Raises:
        ConfigError, DataValidationError, EvidenceError: see `parts`.
        ModelMismatchError: the target is no Llama.
    """
    work = work or out / "work"
    work.mkdir(parents=True, exist_ok=True)
    budget = Budget(minutes, work / "clock.json")
    model = load_model(target, device, dtype)

    def seen(part: str, what: Mapping[str, Any]) -> None:
        if part != "train":  # there the time is kept with each checkpoint
            budget.save()
        if watch is not None:
            watch(part, what)

    texts = write_texts(
        model,
        work,
        synthesis or SynthesisSettings(),
        withheld,
        prompts=prompts,
        is_enough=lambda: budget.is_over(WRITING),
        watch=seen,
    )
    settings = training or TrainingSettings()
    return train_draft(model, texts, work / "training", out, settings, budget=budget, watch=seen)
