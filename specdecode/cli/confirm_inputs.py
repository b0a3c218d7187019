"""What a confirmation is run with: plan, parameters, input manifest and models, and their digests.

All of it is checked before the confirmation set is opened: what is wrong here must not consume it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specdecode.cli.documents import read_json_object
from specdecode.errors import ConfigError, TamperedError

if TYPE_CHECKING:
    from specdecode.decoding.engine import Engine
    from specdecode.governance import Plan
    from specdecode.models import LoadedModel
    from specdecode.workload.sampling import SamplingSetting

MODEL_PARTS = ("weights", "tokenizer", "chat_template", "config")


@dataclass(frozen=True)
class Inputs:
    """A plan's stage "confirmation", and what it is measured with.

    Attributes:
        plan: the plan as seen from that stage.
        params: the parameters of the run, as in params.yaml.
        entries: SHA-256 of every input by name, from the input manifest.
        manifest_sha256: over `entries`; the digest of the candidate, and in every row.
        target: folder of the target model.
        settings: named sampling settings.
    """

    plan: Plan
    params: Mapping[str, Any]
    entries: Mapping[str, str]
    manifest_sha256: str
    target: Path
    settings: list[SamplingSetting]

    @property
    def manifest(self) -> dict[str, Any]:
        """The input manifest, as `decide` takes it."""
        return {"manifest_sha256": self.manifest_sha256, "entries": dict(self.entries)}

    @property
    def draft(self) -> str | None:
        """What the arms that draft do it with."""
        return next((arm.draft for arm in self.plan.arms if arm.draft), None)

    @property
    def audit_alpha(self) -> float | None:
        """Level of the audit the plan asks for; None when it asks for none."""
        return next(iter(_alphas(self.plan)), None)

    def candidate_now(self) -> str:
        """The manifest's digest, had it been written from the models, parameters and plan at hand.

        Code and lock file are sealed by themselves; a prompt table plays no part here.
        """
        from specdecode.governance import PLAN_ENTRY, plan_sha256, sealed_sha256
        from specdecode.models.fingerprint import fingerprint_folder

        now = dict(self.entries)
        now[PLAN_ENTRY] = plan_sha256(self.plan)
        now["params"] = params_sha256(self.params)
        folders = {"target": self.target}
        if self.draft is not None and Path(self.draft).is_dir():
            folders["draft"] = Path(self.draft)
        for name, folder in folders.items():
            for part, digest in fingerprint_folder(folder).to_json().items():
                now[f"{name}.{part}"] = digest
        return sealed_sha256(now)

    def load(self) -> tuple[LoadedModel, dict[str, Engine]]:
        """The target, and one engine per arm of the plan; all share that target in memory."""
        from specdecode import Engine
        from specdecode.models import load_model

        decoding = self.params["decoding"]
        model = load_model(
            str(self.target), device=decoding["device"], dtype=self.params["target"]["dtype"]
        )
        engines = {
            arm.name: Engine.load(target=model)
            if arm.draft is None or arm.verification is None
            else Engine.load(
                target=model,
                draft=arm.draft,
                verification=arm.verification,
                num_speculative_tokens=arm.num_speculative_tokens
                or decoding["num_speculative_tokens"],
            )
            for arm in self.plan.arms
        }
        return model, engines


def read_inputs(plan: Path, params: Path, manifest: Path, target: Path) -> Inputs:
    """Read and check everything but the confirmation set.

    Raises:
        ConfigError: a file or key is missing, the plan has no stage "confirmation", or plan and
            parameters speak of different settings.
        TamperedError: the manifest's entries are not those it was made with.
    """
    from specdecode.governance import PLAN_ENTRY, load_plan, plan_sha256
    from specdecode.governance.seal import fits
    from specdecode.workload.confirmation import STAGE
    from specdecode.workload.sampling import settings_from

    view = load_plan(plan).at(STAGE)
    drafts, alphas = {arm.draft for arm in view.arms if arm.draft}, _alphas(view)
    if len(drafts) > 1 or len(alphas) > 1:
        raise ConfigError(
            f"{plan}: the audit that follows takes one draft and one alpha, the plan has the "
            f"drafts {sorted(drafts)} and the alphas {sorted(alphas)}"
        )
    document, found = _parameters(params), read_json_object(manifest)
    entries, digest = found.get("entries"), found.get("manifest_sha256")
    if not isinstance(entries, dict) or not fits(entries, digest):
        raise TamperedError(f"{manifest}: its entries are not those it was made with; restore it")
    if entries.get(PLAN_ENTRY) != plan_sha256(view):
        raise ConfigError(
            f"{manifest}: made for another plan than {plan}; `make evaluate` makes one for "
            "plans/default.yaml"
        )
    absent = [f"target.{part}" for part in MODEL_PARTS if f"target.{part}" not in entries]
    absent += ["params"] if "params" not in entries else []
    if absent:
        raise ConfigError(f"{manifest}: does not say what {', '.join(absent)} is")
    try:
        decoding, _ = document["decoding"], document["target"]["dtype"]
        for key in ("device", "num_speculative_tokens"):
            decoding[key]
        document["seeds"]["sampling"], document["profile"]
        limit = {"max_tokens": decoding["max_tokens"]}
        settings = settings_from([{**limit, **option} for option in decoding["sampling"]])
    except (KeyError, TypeError) as error:
        raise ConfigError(f"{params}: not the parameters of a run ({error!r})") from error
    if sorted(view.sampling) != sorted(setting.name for setting in settings):
        raise ConfigError(
            f"{params}: samples {', '.join(s.name for s in settings)}, the plan "
            f"{', '.join(view.sampling)}; correct the one that is wrong"
        )
    return Inputs(view, document, entries, str(digest), target, settings)


def _parameters(path: Path) -> dict[str, Any]:
    from specdecode.governance.yaml_file import read_yaml

    document = read_yaml(path, "parameters")
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: not the parameters of a run (expected keys and values)")
    return document


def params_sha256(params: Mapping[str, Any]) -> str:
    """SHA-256 of parameters as the input manifest has it: without the profiles laid over them."""
    from specdecode.governance import sealed_sha256

    return sealed_sha256({key: value for key, value in params.items() if key != "profiles"})


def _alphas(plan: Plan) -> set[float]:
    from specdecode.governance.rules.losslessness import Losslessness

    return {rule.alpha for rule in plan.rules if isinstance(rule, Losslessness)}
