"""The audit of a real vLLM: is what it emits the target's own, with speculation and without?

One server an arm, all with the same requests. The last arm is a planted fault: vLLM's synthetic
acceptance keeps draft tokens at a fixed rate, whatever the target says of them. An audit that
does not find it shows nothing about the others.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pipelines.console import say
from pipelines.external.environments import environment, external
from pipelines.external.models import DRAFT_LAYERS, Models
from pipelines.external.requests import REPLY, SETTINGS, Ask, asks, send
from pipelines.external.servers import draft_model, ngram, vllm_command
from specdecode.audit import AuditReport, audit_arms
from specdecode.durable import written_whole
from specdecode.errors import ConfigError
from specdecode.models import LoadedModel, load_model
from specdecode.models.fingerprint import fingerprint_folder, sha256_file
from specdecode.workload.engines import detect
from specdecode.workload.server_process import ServerCommand, ServerProcess

SCHEMA = "specdecode.external-audit/1"
REPORT = Path("reports/external/audit-vllm.json")
WORK = Path(".external/audit")
BASELINE = "plain"
PLANTED = "synthetic"
_ASK_S = 60.0


@dataclass(frozen=True)
class Arm:
    """One way to run vLLM.

    Attributes:
        speculative: its `--speculative-config`; None decodes plainly.
        draft: what the audit is told of the draft.
    """

    speculative: Mapping[str, Any] | None
    draft: str | None


def arms(models: Models) -> dict[str, Arm]:
    """All arms, by name."""
    folder = str(models.draft)
    drafted = draft_model(models.draft)
    planted = {"rejection_sample_method": "synthetic", "synthetic_acceptance_length": 3.0}
    return {
        BASELINE: Arm(None, None),
        "draft_model": Arm(drafted, folder),
        # The audit asks this project's prompt lookup where vLLM's would lean: much the same place.
        "ngram": Arm(ngram(), "prompt-lookup"),
        PLANTED: Arm({**drafted, **planted}, folder),
    }


def run(
    models: Models, chosen: Sequence[str], *, rounds: int, seed: int, alpha: float, threads: int
) -> dict[str, Any]:
    """Collect the rows of some arms, judge them, and return the evidence.

    Args:
        models: target and draft.
        chosen: names of arms; the plain one is always among them.
        rounds: requests of each way to sample.
        seed: of the first request.
        alpha: probability of calling a lossless arm biased.
        threads: of vLLM.

    Raises:
        ConfigError: there is no such arm.
        MissingPrerequisiteError: vLLM is not installed.
    """
    known = arms(models)
    if unknown := [name for name in chosen if name not in known]:
        raise ConfigError(f"no arm {unknown[0]!r}; there are: {', '.join(known)}")
    names = [name for name in known if name == BASELINE or name in chosen]
    folder = environment("vllm")
    target = load_model(models.target, device="cpu", dtype="bfloat16")
    requests = asks(target.tokenizer, rounds, seed)
    collected = {}
    for name in names:
        command = vllm_command(
            folder, models.target, speculative=known[name].speculative, threads=threads
        )
        collected[name] = collect(name, command, requests)
    reports = judge({n: c["rows"] for n, c in collected.items()}, known, target, alpha)
    return {
        "schema": SCHEMA,
        "engine": {"name": "vllm", "version": collected[BASELINE]["version"]},
        "lock_sha256": sha256_file(external("vllm").lock_path),
        "target": fingerprint_folder(models.target).to_json(),
        "draft": {
            **fingerprint_folder(models.draft).to_json(),
            "layers_of_the_target": list(DRAFT_LAYERS),
        },
        "reference": {"dtype": "bfloat16", "device": "cpu"},
        "requests": {
            "rounds": rounds,
            "seed": seed,
            "max_tokens": REPLY,
            "settings": {name: dict(values) for name, values in SETTINGS.items()},
        },
        "alpha": alpha,
        "arms": {
            name: _evidence(collected[name], reports[name], known[name], models) for name in names
        },
    }


def collect(arm: str, command: ServerCommand, requests: Sequence[Ask]) -> dict[str, Any]:
    """Start vLLM, send the requests, and keep rows and what it said of itself.

    What was collected before with the same command and requests is not collected again.
    """
    asked = {
        "argv": list(command.argv),
        "env": dict(command.env),
        "requests": [r.body() for r in requests],
    }
    key = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:16]
    kept = WORK / f"{arm}-{key}.json"
    if kept.is_file():
        say(f"{arm}: rows are there ({kept}).")
        found: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
        return found
    say(f"{arm}: starting vLLM …")
    with ServerProcess(command, WORK / f"{arm}.log") as server:
        detected = asyncio.run(detect(server.url, timeout_s=_ASK_S))
        rule = detected.adapter.rule(detected.facts)
        rows = send(server.url, requests, arm, lambda n: say(f"{arm}: {n}/{len(requests)}"))
    found = {"version": detected.version, "rule": asdict(rule), "rows": rows}
    with written_whole(kept) as file:
        file.write(json.dumps(found).encode())
    return found


def judge(
    rows: Mapping[str, Sequence[Mapping[str, Any]]],
    known: Mapping[str, Arm],
    target: LoadedModel,
    alpha: float,
) -> dict[str, AuditReport]:
    """Audit every arm with its draft, beside plain decoding as control."""
    reports: dict[str, AuditReport] = {}
    for draft in dict.fromkeys(known[name].draft for name in rows if name != BASELINE):
        names = [name for name in rows if name == BASELINE or known[name].draft == draft]
        say(f"auditing {', '.join(names)} …")
        found = audit_arms({name: rows[name] for name in names}, target, draft, alpha)
        reports |= {name: report for name, report in found.items() if name not in reports}
    return reports or audit_arms(rows, target, None, alpha)


def _evidence(
    collected: Mapping[str, Any], report: AuditReport, arm: Arm, models: Models
) -> dict[str, Any]:
    rows = collected["rows"]
    found = report.to_json()
    greedy = found["greedy"]
    return {
        "speculative_config": _without_paths(arm.speculative, models),
        "acceptance_rule": collected["rule"],
        "acceptance": _acceptance(rows),
        "refused": dict(Counter(f"{r['setting']}: {r['error']}" for r in rows if r["error"])),
        "replies": dict(Counter(r["setting"] for r in rows if not r["error"])),
        "outputs_sha256": hashlib.sha256(
            json.dumps([r["output_token_ids"] for r in rows]).encode()
        ).hexdigest(),
        **{
            name: found[name]
            for name in (
                "verdict", "reasons", "log_e_value", "max_log_e_value", "directions",
                "tokens_read", "min_tokens", "first_evidence", "sampled",
            )
        },
        "greedy": greedy and {k: v for k, v in greedy.items() if k != "listed_failures"},
    }  # fmt: skip


def _acceptance(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any] | None:
    told = [row for row in rows if row["drafted"]]
    if not told:
        return None
    totals = {name: sum(row[name] for row in told) for name in ("steps", "drafted", "accepted")}
    return {
        **totals,
        "acceptance_rate": round(totals["accepted"] / totals["drafted"], 4),
        "mean_acceptance_length": round(1 + totals["accepted"] / totals["steps"], 4),
    }


def _without_paths(config: Mapping[str, Any] | None, models: Models) -> dict[str, Any] | None:
    if config is None:
        return None
    return {k: "the draft" if v == str(models.draft) else v for k, v in config.items()}
