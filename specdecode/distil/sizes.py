"""Drafts of several sizes, trained on the same texts, compared by the speed they give.

Acceptance alone cannot choose: a larger draft is accepted more often and costs more. Each is timed
against plain decoding on the same prompts, in turn within every round, so that a machine that slows
down slows all of them.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specdecode.decoding import Engine, SamplingParams
from specdecode.distil.budget import Budget
from specdecode.distil.parts import Watch, train_draft, write_texts
from specdecode.distil.settings import SynthesisSettings, TrainingSettings
from specdecode.distil.texts import REPLY, Conversation, write_page
from specdecode.distil.withheld import Withheld
from specdecode.durable import written_whole
from specdecode.errors import ConfigError
from specdecode.models import LoadedModel, load_model
from specdecode.workload.progress import progress
from specdecode.workload.prompts import Prompt

_WRITING = 0.4


@dataclass(frozen=True)
class Timing:
    """How speed is measured.

    Attributes:
        lengths: draft tokens a step, each tried with each draft.
        prompts: how many, from the texts held out.
        rounds: how often all is repeated.
        max_tokens: of each reply.
        temperature: of the replies.
        seed: of the replies.
    """

    lengths: tuple[int, ...] = (2, 3, 4, 6)
    prompts: int = 8
    rounds: int = 3
    max_tokens: int = 64
    temperature: float = 1.0
    seed: int = 0


def compare(
    target: str | Path,
    out: Path,
    *,
    layers: Sequence[int],
    heads: Sequence[int | None],
    withheld: Withheld,
    synthesis: SynthesisSettings | None = None,
    training: TrainingSettings | None = None,
    timing: Timing | None = None,
    prompts: Sequence[Prompt] = (),
    minutes: float | None = None,
    device: str = "auto",
    dtype: str = "auto",
    watch: Watch | None = None,
) -> dict[str, Any]:
    """Train, evaluate and time every size; go on if it was killed. Timing always begins anew.

    Args:
        target: model source.
        out: folder of the texts, of every draft (`layers-L-head-M`) and of the table.
        layers: of the drafts.
        heads: sizes of their heads; None for the whole vocabulary.
        withheld: prompts that must not be trained on.
        synthesis: what is written.
        training: how they are trained; its layers and head are not used.
        timing: how speed is measured.
        prompts: see `distil`.
        minutes: for the texts and all trainings together; timing comes on top.
        device: see `load_model`.
        dtype: of the target.
        watch: see `distil`; drafts are named by the key "size".

    Returns:
        The content of `compare.json`, the fastest draft first.

    Raises:
        ConfigError: no size, no prompt or no round. See also `distil`.
    """
    timing = timing or Timing()
    if not layers or not heads or not timing.lengths or min(timing.prompts, timing.rounds) < 1:
        raise ConfigError("give at least one size, draft length, prompt and round to compare")
    model = load_model(target, device, dtype)
    out.mkdir(parents=True, exist_ok=True)
    tell: Watch = watch or (lambda _part, _what: None)
    writing = None if minutes is None else _WRITING * minutes
    clock = Budget(writing, out / "clock.json")

    def written(part: str, what: Mapping[str, Any]) -> None:
        clock.save()
        tell(part, what)

    texts = write_texts(
        model,
        out,
        synthesis or SynthesisSettings(),
        withheld,
        prompts=prompts,
        is_enough=lambda: clock.is_over(1.0),
        watch=written,
    )
    sizes = [(depth, head) for depth in layers for head in heads]
    each = None if minutes is None else (1 - _WRITING) * minutes / len(sizes)
    reports: dict[str, dict[str, Any]] = {}
    for depth, head in sizes:
        name = f"layers-{depth}-head-{head or 'full'}"
        settings = (training or TrainingSettings()).model_copy(
            update={"layers": depth, "head": head}
        )
        (out / name).mkdir(exist_ok=True)
        reports[name] = train_draft(
            model,
            texts,
            out / name / "training",
            out / name,
            settings,
            budget=Budget(each, out / name / "clock.json"),
            watch=_named(tell, name),
        )
    speeds = time_drafts(model, {n: out / n for n in reports}, texts.load(held_out=True), timing)
    rows = [_row(name, report, speeds) for name, report in reports.items()]
    rows.sort(key=lambda row: -row["speed_ratio"])
    document = {
        "schema": "specdecode.distil-compare/1",
        "target": model.fingerprint.to_json(),
        "texts_sha256": texts.sha256,
        "timing": {**vars(timing), "lengths": list(timing.lengths)},
        "plain_tokens_per_s": round(statistics.median(speeds["plain", 0]), 3),
        "drafts": rows,
    }
    write_page(out / "compare.json", document)
    with written_whole(out / "compare.md") as file:
        file.write(table(document).encode())
    return document


def time_drafts(
    target: LoadedModel,
    drafts: Mapping[str, Path],
    texts: Sequence[Conversation],
    timing: Timing,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[tuple[str, int], list[float]]:
    """Tokens per second of every draft at every draft length, and of plain decoding, by round.

    Returns:
        By (draft, length); plain decoding is ("plain", 0).
    """
    engines: dict[tuple[str, int], Engine] = {("plain", 0): Engine.load(target)}
    for name, folder in drafts.items():
        for length in timing.lengths:
            engines[name, length] = Engine.load(target, str(folder), num_speculative_tokens=length)
    asked = [t.tokens[t.kinds != REPLY].tolist() for t in texts][: timing.prompts]
    params = SamplingParams(
        max_tokens=timing.max_tokens,
        temperature=timing.temperature,
        seed=timing.seed,
        ignore_eos=True,
    )
    for engine in engines.values():  # kernels and caches are warm from here on
        engine.generate([asked[0]], params)
    speeds: dict[tuple[str, int], list[float]] = {key: [] for key in engines}
    with progress("timed", timing.rounds * len(engines), 0) as advance:
        for _ in range(timing.rounds):
            for key, engine in engines.items():
                begun, tokens = clock(), 0
                for prompt in asked:
                    tokens += len(engine.generate([prompt], params)[0].token_ids)
                speeds[key].append(tokens / (clock() - begun))
                advance(f"{key[0]}, {key[1]} tokens")
    return speeds


def _row(
    name: str, report: Mapping[str, Any], speeds: Mapping[tuple[str, int], Sequence[float]]
) -> dict[str, Any]:
    plain = speeds["plain", 0]
    ratios = {
        length: [own / base for own, base in zip(found, plain, strict=True)]
        for (draft, length), found in speeds.items()
        if draft == name
    }
    best = max(ratios, key=lambda length: statistics.median(ratios[length]))
    trained = report["evaluation"]["drafts"]["trained"]
    return {
        "draft": name,
        "expected_acceptance": {t: found["expected_acceptance"] for t, found in trained.items()},
        "steps": report["steps"],
        "num_speculative_tokens": best,
        "speed_ratio": round(statistics.median(ratios[best]), 4),
        "speed_ratio_range": [round(min(ratios[best]), 4), round(max(ratios[best]), 4)],
        "by_length": {
            str(length): round(statistics.median(found), 4) for length, found in ratios.items()
        },
    }


def table(document: Mapping[str, Any]) -> str:
    """The comparison as Markdown. The range is that over rounds, no confidence interval."""
    lines = [
        "| draft | acceptance, T = 1 | T = 0.7 | greedy | γ | speed ratio to plain | range |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in document["drafts"]:
        shares = " | ".join(f"{row['expected_acceptance'][t]:.3f}" for t in ("1", "0.7", "0"))
        low, high = row["speed_ratio_range"]
        lines.append(
            f"| {row['draft']} | {shares} | {row['num_speculative_tokens']} "
            f"| {row['speed_ratio']:.3f} | {low:.3f} to {high:.3f} |"
        )
    return "\n".join(lines) + "\n"


def _named(tell: Watch, size: str) -> Watch:
    return lambda part, what: tell(part, {**what, "size": size})
