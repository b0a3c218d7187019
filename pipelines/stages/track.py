"""Stage `track`: the evaluation as MLflow runs and as a candidate in the registry, and their ids.

MLflow is a view. The record itself is what lies in data/ and reports/.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from pipelines.machine_load import LOG, Moment, between
from pipelines.stages.command import parameters, read_json, run, write_json
from pipelines.tracking import record, store_of
from pipelines.tracking.candidates import register
from pipelines.tracking.evaluation import RELEASE, Evaluation, release_run
from specdecode.models.fingerprint import sha256_file

OUTPUT = "reports/tracking.json"
STAGE = "offline"
ROWS = Path("data/rows.parquet")
BUNDLE = Path("reports/evidence/evaluation.zip")
ARTIFACTS = (
    "reports/evaluation.html",
    "reports/plots",
    "reports/metrics.json",
    "reports/verdict.json",
    "reports/audit.json",
    "reports/manifest.json",
    "reports/state/environment.json",
    BUNDLE,
    ROWS,
)


def main() -> None:
    """Writes the runs, the candidate and reports/tracking.json."""
    found = Evaluation(
        stage=STAGE,
        params=parameters(),
        verdict=read_json("reports/verdict.json"),
        metrics=read_json("reports/metrics.json"),
        audit=read_json("reports/audit.json"),
        manifest=read_json("reports/manifest.json"),
        bundle_sha256=sha256_file(BUNDLE) if BUNDLE.exists() else None,
    )
    store, plan = store_of(Path.cwd()), str(found.verdict["plan_name"])
    artifacts = [path for name in ARTIFACTS if (path := Path(name)).exists()]
    ids = record(store, release_run(found, artifacts, load_while_measured()), experiment=plan)
    candidate = register(store, found, ids[f"{RELEASE}/{STAGE}"])
    write_json(
        OUTPUT,
        {
            "schema": "specdecode.tracking/2",
            "manifest_sha256": found.manifest["manifest_sha256"],
            "experiment": plan,
            "runs": ids,
            "candidate": {"model": candidate.model, "version": candidate.version},
        },
    )


def load_while_measured() -> list[Moment]:
    """Returns how busy the machine was while the rows were made; nothing where none was read."""
    if not ROWS.exists():
        return []
    times = [at for at in pq.read_table(ROWS, columns=["started_at"])[0].to_pylist() if at]
    if not times:
        return []
    return between(LOG, min(times).timestamp(), max(times).timestamp())


if __name__ == "__main__":
    run(main)
