"""What the flows of a release are told: one document for all of them.

A deployment passes it as the parameter `release`, or it stands in a YAML file that the environment
variable SPECDECODE_RELEASE names (by default .specdecode/release.yaml). The router's token is never
in it: parameters of a flow are shown to everybody who may see its runs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from specdecode.errors import ConfigError
from specdecode.governance.yaml_file import problems, read_yaml

ENVIRONMENT, DEFAULT_FILE = "SPECDECODE_RELEASE", Path(".specdecode/release.yaml")
TOKEN_ENVIRONMENT = "SPECDECODE_ROUTER_TOKEN"  # noqa: S105 - the name of a variable


class AuditOptions(BaseModel):
    """How outputs are checked against the target, where rows have their token ids."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    target: str = Field(description="target model, as `specdecode audit --target` takes it")
    dtype: Literal["auto", "float32", "bfloat16", "float16", "float64"] = Field(
        "auto",
        description="precision of the target, best the engine's; auto: what the device is made for",
    )
    draft: str | None = Field(None, description="draft, which shows which way a fault would lean")
    alpha: Annotated[float, Field(gt=0, lt=0.5)] = Field(0.01, description="chance of a false word")


class RegistryOptions(BaseModel):
    """Where the champion is named."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    uri: str = Field(description="MLflow tracking server or database")
    model: str = Field(description="name of the registered model; it is made where there is none")
    version: str | None = Field(None, description="null: that of the manifest, made if need be")
    source: str = Field("models/draft", description="where the files of a version made here are")
    lock: Path = Field(
        Path(".specdecode/registry.lock"), description="file that only one promotion holds"
    )


class ReleaseOptions(BaseModel):
    """One release, as flows are told of it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    router: str = Field(description="address of the router, such as http://127.0.0.1:8080")
    plan: Path = Field(description="the plan (YAML), with its seal and anchor beside it")
    manifest: Path = Field(description="the input manifest (JSON)")
    spool: Path = Field(description="the router's spool: STATE_DIR/spool")
    records: Path = Field(
        Path("reports/releases"), description="folder for journals, verdicts, rows and bundles"
    )
    token_file: Path | None = Field(
        None, description=f"file with the router's token; null: the variable {TOKEN_ENVIRONMENT}"
    )
    ledger: Path = Field(Path("plans/ledger.jsonl"), description="where decisions are on record")
    gate_file: Path | None = Field(
        None, description="the router's --verdict FILE, which /gate shows; null: none"
    )
    entry_verdict: Path | None = Field(
        None, description="verdict of the stage before users, for a plan without shadow"
    )
    shadow_share: Annotated[float, Field(gt=0, le=1)] = Field(
        1.0, description="share of requests that a shadow copies"
    )
    begin_again: bool = Field(
        False, description="begin again although somebody has turned the router off"
    )
    unsealed: bool = Field(
        False, description="go on although nobody sealed the plan; for rehearsals only"
    )
    audit: AuditOptions | None = Field(None, description="null: outputs are not audited")
    data_quality: Path | None = Field(None, description="results of the data checks (JSON)")
    dvc_lock: Path | None = Field(Path("dvc.lock"), description="the lock file of the pipeline")
    bundle: Path | None = Field(
        None, description="a bundle made elsewhere, to promote by; null: one is made"
    )
    registry: RegistryOptions | None = Field(None, description="null: no alias is moved")


def options_of(
    given: ReleaseOptions | None, environ: Mapping[str, str] = os.environ
) -> ReleaseOptions:
    """The options given, or those of the file that the environment names.

    Raises:
        ConfigError: there is no such file, or a field is missing, unknown or wrong.
    """
    if given is not None:
        return given
    path = Path(environ.get(ENVIRONMENT) or DEFAULT_FILE)
    document = read_yaml(path, f"release; {ENVIRONMENT} names the file, docs/flows.md the fields")
    try:
        return ReleaseOptions.model_validate(document)
    except ValidationError as error:
        raise ConfigError(f"{path}: does not describe a release\n{problems(error)}") from error


def token_of(options: ReleaseOptions, environ: Mapping[str, str] = os.environ) -> str:
    """The router's token.

    Raises:
        ConfigError: there is none.
    """
    if options.token_file is None:
        token = environ.get(TOKEN_ENVIRONMENT, "")
    else:
        try:
            token = options.token_file.read_text(encoding="utf-8")
        except OSError as error:
            raise ConfigError(
                f"{options.token_file}: cannot be read ({error.strerror or error}); it is the file "
                "that `specdecode route --token-file` was started with"
            ) from error
    if not token.strip():
        raise ConfigError(
            f"no token for the router: name its file (token_file), or set {TOKEN_ENVIRONMENT}"
        )
    return token.strip()


def manifest_of(path: Path) -> Mapping[str, Any]:
    """The input manifest.

    Raises:
        ConfigError: it cannot be read, or names no SHA-256.
    """
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: no input manifest can be read from it ({error})") from error
    if not isinstance(document, dict) or not isinstance(document.get("manifest_sha256"), str):
        raise ConfigError(f"{path}: is no input manifest: it has no manifest_sha256")
    return document
