"""Stage `manifest`: the SHA-256 of every input, and one over all of them.

Evidence carries that one number in every row, so rows made under other inputs cannot be taken for
these. (dvc.lock says the same in MD5, which is not good enough to seal.) Code enters by folder,
only the code that makes or judges evidence: a new chart or command must not cost a new
measurement.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipelines.agreement import check_agreement
from pipelines.digests import sha256_json, sha256_tree
from pipelines.planted import planted_arms
from pipelines.sealed import sealed_plan
from pipelines.stages.command import parameters, read_json, run, write_json
from specdecode.governance import PLAN_ENTRY, Plan, load_plan, plan_sha256, sealed_sha256
from specdecode.models.fingerprint import sha256_file

OUTPUT = "reports/manifest.json"
PARTS = ("weights", "tokenizer", "chat_template", "config")
LIBRARY = (
    "models",
    "drafting",
    "verification",
    "decoding",
    "statistics",
    "measurement",
    "audit",
    "workload",
    "rollout",
    "governance",
)
STAGES = ("target", "draft", "prompts", "validate", "manifest", "measure", "audit", "decide")
FILES = {
    "prompts.compiled": "data/prompts.parquet",
    "prompts.validation": "data/validation.json",
    "plan": "plans/default.yaml",
    "lock": "requirements.lock",
    "environment": "reports/state/environment.json",
    "draft.manifest": "models/draft/manifest.json",
    "code.durable": "specdecode/durable.py",
    "code.errors": "specdecode/errors.py",
    "code.engine": "specdecode/__init__.py",
}


def entries(params: dict[str, Any], plan: Plan) -> dict[str, str]:
    """Returns the digest of each input by name.

    The plan enters twice: its bytes, and its meaning, by which `decide` knows it again.
    """
    found = {f"target.{part}": digest for part, digest in _parts("reports/state/target.json")}
    draft = read_json("models/draft/manifest.json")
    found |= {f"draft.{part}": draft["fingerprint"][part] for part in PARTS}
    found["prompts.files"] = sha256_tree(Path(params["prompts"]["path"]), (".jsonl",))
    found |= {name: sha256_file(Path(path)) for name, path in FILES.items()}
    found |= {f"code.{name}": sha256_tree(Path("specdecode", name), (".py",)) for name in LIBRARY}
    found["code.quality"] = sha256_tree(Path("pipelines/quality"), (".py",))
    found |= {f"stage.{name}": sha256_file(Path(f"pipelines/stages/{name}.py")) for name in STAGES}
    found[PLAN_ENTRY] = plan_sha256(plan)
    found["params"] = sha256_json({key: params[key] for key in params if key != "profiles"})
    return found


def main() -> None:
    """Writes reports/manifest.json, once plan and parameters are about the same experiment."""
    params = parameters()
    plan = load_plan(FILES["plan"])
    check_agreement(plan, params)
    # A run with a planted fault tries out the gate, on parameters that were not sealed.
    as_sealed = params["profile"] == "full" and not planted_arms(params["decoding"])
    sealed = sealed_plan(plan, files=as_sealed)
    found = entries(params, plan)
    if sealed is not None:  # rows older than a seal are not what was sealed
        found["plan.seal"] = sealed.envelope.sha256
    write_json(
        OUTPUT,
        {
            "schema": "specdecode.manifest/1",
            "entries": found,
            "manifest_sha256": sealed_sha256(found),
        },
    )


def _parts(path: str) -> list[tuple[str, str]]:
    fingerprint = read_json(path)
    return [(part, fingerprint[part]) for part in PARTS]


if __name__ == "__main__":
    run(main)
