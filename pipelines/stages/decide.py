"""Stage `decide`: the plan and the rows in, the verdict and every metric out.

Both come from the same rows in one stage, with the plan's baseline and seed, so the report, the
tracker and the gate show the same numbers and intervals. The verdict is a result whatever it says;
the stage fails only when it cannot be computed.
"""

from __future__ import annotations

from pipelines.stages.command import read_json, run, write_json
from specdecode.governance import decide, load_plan
from specdecode.measurement.records import read_parquet
from specdecode.measurement.summary import summarise

PLAN = "plans/default.yaml"
VERDICT = "reports/verdict.json"
METRICS = "reports/metrics.json"


def main() -> None:
    """Writes reports/verdict.json and reports/metrics.json."""
    rows = read_parquet("data/rows.parquet")
    plan = load_plan(PLAN)
    verdict = decide(
        plan,
        rows,
        audit=read_json("reports/audit.json"),
        manifest=read_json("reports/manifest.json"),
    )
    # With the verdict, so that `dvc metrics diff` and `dvc exp show` tell it beside the numbers.
    summary = summarise(rows, plan.baseline, seed=plan.bootstrap_seed)
    write_json(METRICS, {"verdict": str(verdict.status), **summary})
    write_json(VERDICT, verdict.to_json())


if __name__ == "__main__":
    run(main)
