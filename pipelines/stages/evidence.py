"""Stage `evidence`: one archive with all a stranger needs to check the verdict.

What was written is verified at once, by the very program that goes along in it. A verdict other
than GO is no failure here; evidence that does not hold is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pipelines.console import say
from pipelines.planted import planted_arms
from pipelines.sealed import ANCHOR, sealed_plan
from pipelines.stages.command import parameters, read_json, run
from pipelines.stages.decide import PLAN, VERDICT
from specdecode.errors import EvidenceError
from specdecode.governance import load_plan
from specdecode.governance.approvals import decisions_on
from specdecode.governance.bundle import newest, write_bundle
from specdecode.governance.subjects import file_sha256
from specdecode.governance.verifier import verify
from specdecode.measurement.records import read_parquet

BUNDLE = Path("reports/evidence/evaluation.zip")


def main() -> None:
    """Writes reports/evidence/evaluation.zip."""
    plan = load_plan(PLAN)
    params = parameters()
    as_sealed = params["profile"] == "full" and not planted_arms(params["decoding"])
    sealed = sealed_plan(plan, files=as_sealed)
    rows = read_parquet("data/rows.parquet")
    entries = () if sealed is None else sealed.entries
    write_bundle(
        BUNDLE,
        at=newest(entries, rows),
        plan_file=PLAN,
        verdict=Path(VERDICT).read_bytes(),
        rows=rows,
        audit=read_json("reports/audit.json"),
        manifest=read_json("reports/manifest.json"),
        data_quality=Path("data/validation.json").read_bytes(),
        dvc_lock=Path("dvc.lock").read_bytes(),
        seal=None if sealed is None else sealed.envelope,
        signers=None if sealed is None else sealed.signers,
        ledger=None if sealed is None else sealed.ledger,
        anchors=[read_json(ANCHOR)] if sealed is not None and ANCHOR.exists() else (),
        approvals=decisions_on(file_sha256(Path(VERDICT)), entries),
    )
    result = verify(BUNDLE, unsealed=sealed is None)
    wrong = [c for c in result["checks"] if c["result"] in ("failed", "tampered")]
    found = "; ".join(f"{check['name']}: {check['text']}" for check in wrong)
    if waits_for_people(wrong):
        say(
            f"{BUNDLE} waits for signatures ({found}). Sign the verdict (`specdecode approve "
            f"{VERDICT} --plan {PLAN} --key YOURS`, each role), then `specdecode bundle FILE`."
        )
    elif wrong:
        raise EvidenceError(f"{BUNDLE}: what was written does not hold: {found}")


def waits_for_people(wrong: Sequence[Mapping[str, str]]) -> bool:
    """Whether nothing is missing but approvals, which nobody can give before there is a verdict.

    Args:
        wrong: the verifier's checks that did not pass.
    """
    return bool(wrong) and all(
        (check["name"], check["result"]) == ("approvals", "failed") for check in wrong
    )


if __name__ == "__main__":
    run(main)
