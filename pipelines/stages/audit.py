"""Stage `audit`: is every arm's output what the target alone would give?

The plain arm is audited too: it is the control that shows what a lossless arm looks like on this
machine.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pipelines import settings
from pipelines.planted import planted_arms
from pipelines.stages.command import parameters, read_json, run, write_json
from pipelines.stages.draft import engine_spec
from specdecode.measurement.digest import rows_sha256
from specdecode.measurement.records import Record, read_records

OUTPUT = "reports/audit.json"
ROWS = "data/rows.parquet"
TARGET = "models/target"
DRAFT = "models/draft/manifest.json"
BASELINE = "plain"


def main() -> None:
    """Writes reports/audit.json."""
    settings.work_offline()
    import torch  # seconds to import, and only after the settings above

    from specdecode.audit import audit_arms
    from specdecode.models import load_model

    params = parameters()
    decoding, alpha = params["decoding"], params["audit"]["alpha"]
    if decoding["threads"] is not None:
        torch.set_num_threads(decoding["threads"])
    target = load_model(TARGET, device=decoding["device"], dtype=params["target"]["dtype"])
    records = read_records(ROWS)
    # The draft shows the audit which way a wrong verification would lean.
    reports = audit_arms(
        rows_by_arm(records),
        target,
        engine_spec(read_json(DRAFT)),
        alpha,
        baseline_arm=BASELINE,
    )
    document: dict[str, Any] = {
        "schema": "specdecode.audit/1",
        "alpha": alpha,
        "rows_sha256": rows_sha256(records),
        "arms": {arm: report.to_json() for arm, report in reports.items()},
    }
    planted = planted_arms(decoding)
    if planted:  # told to whoever reads the audit: these arms are wrong, whatever was found
        document["planted_faults"] = planted
    write_json(OUTPUT, document)


def rows_by_arm(records: Iterable[Record]) -> dict[str, list[dict[str, Any]]]:
    """Returns all rows by arm, failed ones too: what was asked and not answered is not judged."""
    arms: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        arms.setdefault(record.arm, []).append(record.model_dump())
    return arms


if __name__ == "__main__":
    run(main)
