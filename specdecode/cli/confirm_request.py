"""From the files a confirmation is given to the request that `open_once` checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from specdecode.cli.confirm_inputs import Inputs
from specdecode.cli.documents import read_json_object
from specdecode.cli.plan_seal import inside, repository, signers_of
from specdecode.errors import ConfigError, TamperedError

if TYPE_CHECKING:
    from specdecode.governance.anchor import AnchorEvidence
    from specdecode.governance.dsse import Envelope
    from specdecode.governance.opening_request import Request


def read_request(
    inputs: Inputs,
    plan: Path,
    *,
    vault: Path,
    keys: Sequence[Path],
    seal: Path | None,
    anchor: Path | None,
    signers: Path | None,
    ledger: Path,
) -> Request:
    """The request to open a set, with digests that are computed when they are asked for.

    Args:
        inputs: what the set is measured with.
        plan: file of the sealed plan.
        vault: folder of the set.
        keys: every holder's key file.
        seal: file of the seal; None: PLAN.seal.json.
        anchor: file of the anchor's evidence; None: PLAN.anchor.json, if it is there.
        signers: signers file; None: the plan's.
        ledger: the ledger.

    Raises:
        ConfigError: a file is missing, or the plan was sealed without a confirmation set.
        TamperedError: seal or evidence is none.
    """
    from specdecode.governance import plan_sha256
    from specdecode.governance.anchor import NoAnchor, anchor_named
    from specdecode.governance.drift import CANDIDATE_SUBJECT
    from specdecode.governance.ledger import Ledger
    from specdecode.governance.opened import OPENED_NAME
    from specdecode.governance.opening_request import Request
    from specdecode.governance.sealing import CONFIRMATION_SUBJECT
    from specdecode.governance.statements import PLAN_SUBJECT, PlanSeal, read_statement
    from specdecode.governance.subjects import present_subjects
    from specdecode.governance.vault import MANIFEST_NAME

    root, envelope = repository(plan), _envelope(seal or plan.with_suffix(".seal.json"))
    evidence = _evidence(anchor, plan.with_suffix(".anchor.json"))
    _, subjects = read_statement(envelope, PlanSeal)  # names only; `open_once` verifies the seal
    if CONFIRMATION_SUBJECT not in subjects:
        raise ConfigError(
            f"the seal of {plan} names no confirmation set, so none may be opened for it: seal it "
            f"with `specdecode plan seal {plan} … --confirmation {vault / MANIFEST_NAME}`, before "
            "there are results"
        )
    computed = {PLAN_SUBJECT, CONFIRMATION_SUBJECT, CANDIDATE_SUBJECT}
    written = [_inside(root, path) for path in (ledger, vault / OPENED_NAME)]

    def present() -> Mapping[str, str]:
        files = present_subjects(
            root, sorted(set(subjects) - computed), [name for name in written if name]
        )
        own = {PLAN_SUBJECT: plan_sha256(inputs.plan), CANDIDATE_SUBJECT: inputs.candidate_now()}
        return {**files, **own}

    return Request(
        vault=vault,
        key_files=keys,
        seal=envelope,
        signers=signers_of(inputs.plan.approvals.signers_file, signers)[1],
        ledger=Ledger(ledger),
        candidate_sha256=inputs.manifest_sha256,
        present=present,
        anchor=NoAnchor() if evidence is None else anchor_named(evidence.name, root),
        evidence=evidence,
    )


def _inside(root: Path, path: Path) -> str | None:
    try:
        return inside(root, path)
    except ConfigError:
        return None  # outside of the repository it is in no tree anyway


def _envelope(path: Path) -> Envelope:
    from specdecode.governance.dsse import parse_envelope

    try:
        return parse_envelope(path.read_bytes())
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be read ({error.strerror or error}); `specdecode plan seal` writes it"
        ) from error


def _evidence(given: Path | None, beside: Path) -> AnchorEvidence | None:
    from pydantic import ValidationError

    from specdecode.governance.anchor import AnchorEvidence

    if given is None and not beside.is_file():
        return None
    try:
        return AnchorEvidence.model_validate(read_json_object(given or beside))
    except ValidationError as error:
        raise TamperedError(f"{given or beside}: not the evidence of an anchor") from error
