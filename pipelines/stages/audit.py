"""Stage `audit`: is every arm's output what the target alone would give?

The plain arm is audited too: it is the control that shows what a lossless arm looks like on this
machine.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pipelines import settings
from pipelines.stages.command import parameters, run, write_json
from specdecode.measurement.digest import rows_sha256
from specdecode.measurement.records import Record, read_records

OUTPUT = "reports/audit.json"
ROWS = "data/rows.parquet"
TARGET = "models/target"
BASELINE = "plain"


def main() -> None:
    """Writes reports/audit.json."""
    settings.work_offline()
    import torch  # noqa: PLC0415 - seconds to import, and only after the settings above

    from specdecode.audit import audit  # noqa: PLC0415
    from specdecode.models import load_model  # noqa: PLC0415

    params = parameters()
    decoding, alpha = params["decoding"], params["audit"]["alpha"]
    if decoding["threads"] is not None:
        torch.set_num_threads(decoding["threads"])
    target = load_model(TARGET, device=decoding["device"], dtype=params["target"]["dtype"])
    records = read_records(ROWS)
    arms = rows_by_arm(records)
    reports = {
        arm: audit(rows, target, alpha=alpha, baseline_rows=arms.get(BASELINE)).to_json()
        for arm, rows in arms.items()
    }
    write_json(
        OUTPUT,
        {
            "schema": "specdecode.audit/1",
            "alpha": alpha,
            "rows_sha256": rows_sha256(records),
            "arms": reports,
        },
    )


def rows_by_arm(records: Iterable[Record]) -> dict[str, list[dict[str, Any]]]:
    """Returns the rows that have an output, by arm. Failed ones are counted by the gate."""
    arms: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        rows = arms.setdefault(record.arm, [])
        if record.output_token_ids is not None:
            rows.append(record.model_dump())
    return arms


if __name__ == "__main__":
    run(main)
