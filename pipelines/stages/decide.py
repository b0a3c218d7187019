"""Stage `decide`: the plan and the rows in, the verdict and every metric out.

Both come from the same rows in one stage, so the report, the tracker and the gate read the same
numbers. The verdict is a result whatever it says; the stage fails only when it cannot be computed.
"""

from __future__ import annotations

from pipelines.stages.command import parameters, read_json, run, write_json
from specdecode.governance import decide, load_plan
from specdecode.measurement.records import read_parquet
from specdecode.measurement.summary import summarise

PLAN = "plans/default.yaml"
VERDICT = "reports/verdict.json"
METRICS = "reports/metrics.json"


def main() -> None:
    """Writes reports/verdict.json and reports/metrics.json."""
    rows = read_parquet("data/rows.parquet")
    verdict = decide(
        load_plan(PLAN),
        rows,
        audit=read_json("reports/audit.json"),
        manifest=read_json("reports/manifest.json"),
    )
    write_json(METRICS, summarise(rows, seed=parameters()["seeds"]["bootstrap"]))
    write_json(VERDICT, verdict.to_json())


if __name__ == "__main__":
    run(main)
