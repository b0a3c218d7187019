"""Candidates in MLflow's registry: a model per target, a version per target, draft and settings.

Aliases: `champion` is what users get, and moves only by a promotion (pipelines.flows.registry);
`challenger` is the newest candidate that a full evaluation called GO. One that lost its GO is no
challenger any more. Neither alias is evidence: whoever loads a version checks its bundle first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mlflow import MlflowClient
from mlflow.entities.model_registry import ModelVersion
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import RESOURCE_ALREADY_EXISTS, ErrorCode

from pipelines.digests import sha256_json
from pipelines.tracking.evaluation import Evaluation
from pipelines.tracking.store import Store, alone

CHAMPION, CHALLENGER = "champion", "challenger"
DIGEST = "candidate.sha256"
PARTS = ("target.", "draft.")
"""Entries of the manifest that a candidate consists of, besides the settings it decodes with."""


@dataclass(frozen=True)
class Candidate:
    """A version of a registered model.

    Attributes:
        model: its name, after the target.
        version: its number.
    """

    model: str
    version: str


def model_name(source: str) -> str:
    """Returns the registered model of a target; MLflow takes no "/" and no ":" in a name.

    Args:
        source: `target.source` of params.yaml.
    """
    return re.sub(r"[^\w.@-]+", "-", source.split(":", 1)[-1]).strip("-.") or "target"


def digests(found: Evaluation) -> dict[str, str]:
    """Returns what tells a candidate from another: digests of target, draft and settings."""
    entries: Mapping[str, str] = found.manifest["entries"]
    settings = {
        "arm": found.candidate,
        "decoding": found.params["decoding"],
        "dtype": str(found.params["target"]["dtype"]),
    }
    own = {f"sha256.{name}": entries[name] for name in entries if name.startswith(PARTS)}
    own["sha256.decoding"] = sha256_json(settings)
    return own | {DIGEST: sha256_json(own)}


def register(store: Store, found: Evaluation, run_id: str) -> Candidate:
    """Finds or makes the version of the candidate that was evaluated, and says how it did.

    A champion keeps the gate tags of its promotion; a later evaluation of it shows in its own run.

    Args:
        store: where to.
        found: what was evaluated.
        run_id: of the stage, whose files are the version's source.

    Raises:
        mlflow.exceptions.MlflowException: the store cannot be written.
    """
    client = MlflowClient(tracking_uri=store.uri, registry_uri=store.uri)
    name, own = model_name(str(found.params["target"]["source"])), digests(found)
    with alone(store):
        _model(client, name, str(found.params["target"]["source"]))
        version = _version(client, name, own, run_id)
        aliases = client.get_registered_model(name).aliases
        if str(aliases.get(CHAMPION)) != version:
            for key, value in gate_tags(found, run_id).items():
                client.set_model_version_tag(name, version, key, value)
            _challenge(client, name, version, found, aliases)
    return Candidate(name, version)


def gate_tags(found: Evaluation, run_id: str) -> dict[str, str]:
    """Returns what a version says of the gate."""
    return {
        "gate.verdict": str(found.verdict["status"]),
        "gate.stage": found.stage,
        "gate.profile": str(found.params["profile"]),
        "gate.plan_sha256": str(found.verdict["plan_sha256"]),
        "gate.manifest_sha256": str(found.manifest["manifest_sha256"]),
        "gate.bundle_sha256": found.bundle_sha256 or "none",
        "gate.run_id": run_id,
    }


def _challenge(
    client: MlflowClient, name: str, version: str, found: Evaluation, aliases: Mapping[str, Any]
) -> None:
    if found.params["profile"] != "full":
        return  # a short run is no evidence for or against
    status = found.verdict["status"]
    if status == "GO":
        client.set_registered_model_alias(name, CHALLENGER, version)
    elif status in ("NO_GO", "INVALID") and str(aliases.get(CHALLENGER)) == version:
        client.delete_registered_model_alias(name, CHALLENGER)


def _model(client: MlflowClient, name: str, source: str) -> None:
    try:
        client.create_registered_model(
            name,
            tags={"target.source": source},
            description=f"Drafts and settings for speculative decoding of `{source}`. "
            "A version is a candidate; its tags say what the gate found.",
        )
    except MlflowException as error:
        if error.error_code != ErrorCode.Name(RESOURCE_ALREADY_EXISTS):
            raise


def _version(client: MlflowClient, name: str, own: Mapping[str, str], run_id: str) -> str:
    wanted = f"name = '{name}' and tags.`{DIGEST}` = '{own[DIGEST]}'"
    found: list[ModelVersion] = list(client.search_model_versions(wanted, max_results=1))
    if found:
        return str(found[0].version)
    source = client.get_run(run_id).info.artifact_uri
    return str(client.create_model_version(name, source, run_id=run_id, tags=dict(own)).version)
