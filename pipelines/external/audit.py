"""The audit of a real vLLM: is what it emits the target's own, with speculation and without?

One server an arm, all with the same requests. vLLM 0.32.0 for CPU has a fault in how it samples
under speculation; the arms that end in `-mended` run without it, and the others show that the audit
finds it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from pipelines.console import say
from pipelines.external.environments import environment, external
from pipelines.external.models import DRAFT_LAYERS, Models
from pipelines.external.requests import REPLY, SETTINGS, Ask, asks, send
from pipelines.external.servers import MEND_CODE, draft_model, ngram, vllm_command
from specdecode.audit import AuditReport, audit_arms
from specdecode.errors import ConfigError
from specdecode.models import LoadedModel, load_model
from specdecode.models.fingerprint import fingerprint_folder, sha256_file
from specdecode.workload.engines import detect
from specdecode.workload.server_process import ServerCommand, ServerProcess

SCHEMA = "specdecode.external-audit/1"
REPORT = Path("reports/external/audit-vllm.json")
WORK = Path(".external/audit")
BASELINE = "plain"
_TOKENS = 3
"""Drafted at a time. The audit needs accepted and rejected tokens, not speed."""
_ASK_S = 60.0


@dataclass(frozen=True)
class Arm:
    """One way to run vLLM.

    Attributes:
        speculative: its `--speculative-config`; None decodes plainly.
        draft: what the audit is told of the draft.
        mended: see `vllm_command`.
    """

    speculative: Mapping[str, Any] | None
    draft: str | None
    mended: bool = False

    @property
    def faulty(self) -> bool:
        """Whether sampling parameters do not reach what is drafted."""
        return self.speculative is not None and not self.mended

    def asked(self, requests: Sequence[Ask]) -> list[Ask]:
        """Requests that do not end the engine: with the fault, top-k indexes beyond its array."""
        return [ask for ask in requests if not (self.faulty and ask.params.top_k)]


def arms(models: Models) -> dict[str, Arm]:
    """All arms, by name."""
    folder = str(models.draft)
    draft, lookup = draft_model(models.draft, _TOKENS), ngram(_TOKENS)
    return {
        BASELINE: Arm(None, None),
        "draft_model": Arm(draft, folder),
        # The audit asks this project's prompt lookup where vLLM's would lean: much the same place.
        "ngram": Arm(lookup, "prompt-lookup"),
        "draft_model-mended": Arm(draft, folder, mended=True),
        "ngram-mended": Arm(lookup, "prompt-lookup", mended=True),
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
            folder,
            models.target,
            speculative=known[name].speculative,
            threads=threads,
            mended=known[name].mended,
        )
        collected[name] = collect(name, command, known[name].asked(requests))
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
    """Start vLLM, send the requests, and keep each row as it comes, and what vLLM says of itself.

    Rows that were collected before with the same versions, command and requests are not collected
    again.
    """
    asked = {
        "argv": list(command.argv),
        "env": dict(command.env),
        "requests": [r.body() for r in requests],
        # Of one path there may be other versions tomorrow, and the evidence names these.
        "versions": [sha256_file(external("vllm").lock_path), sha256_file(MEND_CODE)],
    }
    key = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:16]
    kept = WORK / f"{arm}-{key}.jsonl"
    told, rows = _kept(kept)
    missing = [ask for ask in requests if ask.index not in rows]
    if missing:
        say(f"{arm}: {len(rows)} of {len(requests)} rows are there; starting vLLM …")
        with ServerProcess(command, WORK / f"{arm}.log") as server, kept.open("a") as file:
            detected = asyncio.run(detect(server.url, timeout_s=_ASK_S))
            rule = asdict(detected.adapter.rule(detected.facts))
            told = {"version": detected.version, "rule": rule}
            file.write("\n")  # after a line that was cut off
            for row in chain([{"server": told}], send(server.url, missing, arm)):
                file.write(json.dumps(row) + "\n")
                file.flush()
        told, rows = _kept(kept)
    return {**told, "rows": [rows[ask.index] for ask in requests]}


def _kept(path: Path) -> tuple[dict[str, Any], dict[int, dict[str, Any]]]:
    """What the server said last, and rows by their place; a line that was cut off is no row."""
    told: dict[str, Any] = {}
    rows: dict[int, dict[str, Any]] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if "server" in found:
            told = found["server"]
        else:
            rows[found["order_index"]] = found
    return told, rows


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
        "mended": arm.mended,
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
