"""The integrity checks row by row, in plain Python: slow, and plainly what they say."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence

from specdecode.governance import Plan
from specdecode.measurement.metrics import METRICS
from specdecode.measurement.records import Record


def findings(plan: Plan, records: Sequence[Record]) -> dict[str, str | None]:
    """What is wrong by each check of rows, or None; by the name of the check."""
    rows = sorted(records, key=lambda r: (r.key, r.request_id))
    checks = (
        unique, arms, sampling, stage, same_inputs, numbers_agree, missing, baseline_works,
        speculation,
    )  # fmt: skip
    return {check.__name__: check(plan, rows) for check in checks}


def some(items: Sequence[str]) -> str:
    return ", ".join(items[:5]) + (f" and {len(items) - 5} more" if len(items) > 5 else "")


def unique(_: Plan, rows: Sequence[Record]) -> str | None:
    keys = Counter("/".join(row.key) for row in rows)
    assert len(keys) == len({row.key for row in rows})  # no names with a slash here
    ids = Counter(row.request_id for row in rows)
    twice = sorted(key for key, count in keys.items() if count > 1)
    twice = twice or sorted(name for name, count in ids.items() if count > 1)
    return f"rows occur twice: {some(twice)}" if twice else None


def arms(plan: Plan, rows: Sequence[Record]) -> str | None:
    return exactly("arm", [arm.name for arm in plan.arms], [row.arm for row in rows])


def stage(plan: Plan, rows: Sequence[Record]) -> str | None:
    return exactly("stage", [plan.stage], [row.stage for row in rows])


def sampling(plan: Plan, rows: Sequence[Record]) -> str | None:
    problem = exactly("sampling setting", plan.sampling, [row.sampling_name for row in rows])
    if problem is not None:
        return problem
    for name, kind in (("sampled", "greedily"), ("greedy", "with sampling")):
        wrong = [
            row.request_id
            for row in rows
            if row.sampling_name == name
            and (row.sampling.get("temperature", 1.0) == 0) is not (name == "greedy")
        ]
        if wrong:
            return f"the setting {name} was measured {kind}: {some(wrong)}"
    return None


def exactly(what: str, wanted: Sequence[str], found: Sequence[str]) -> str | None:
    absent, foreign = sorted(set(wanted) - set(found)), sorted(set(found) - set(wanted))
    parts = [f"no rows of {what} {some(absent)}"] if absent else []
    parts += [f"rows of {what} {some(foreign)}, which the plan does not have"] if foreign else []
    return "; ".join(parts) or None


def same_inputs(_: Plan, rows: Sequence[Record]) -> str | None:
    seen: dict[tuple[str, str], set[str]] = {}
    prompts: dict[tuple[str, str], set[str]] = {}
    for row in rows:
        request = (row.prompt_id, row.sampling_name)
        settings = {k: v for k, v in row.sampling.items() if k != "seed"}
        strata = (row.category, row.difficulty, row.language)
        seen.setdefault(request, set()).add(json.dumps([settings, strata], sort_keys=True))
        if row.error is None or row.prompt_token_ids is not None:
            prompts.setdefault(request, set()).add(json.dumps(row.prompt_token_ids))
    differing = sorted(
        "/".join(request)
        for request, own in seen.items()
        if len(own) > 1 or len(prompts.get(request, ())) > 1
    )
    if not differing:
        return None
    return f"arms had different prompts, settings or labels: {some(differing)}"


def numbers_agree(_: Plan, rows: Sequence[Record]) -> str | None:
    wrong = [row.request_id for row in rows if row.error is None and not agrees(row)]
    return f"numbers contradict each other in {some(wrong)}" if wrong else None


def agrees(row: Record) -> bool:
    steps, accepted, histogram = row.steps, row.accepted, row.acceptance_histogram
    asked, found = row.sampling.get("max_tokens"), row.output_tokens
    tpot = METRICS["tpot_s"].value(row)
    faults = [False]
    if histogram and steps is not None:
        faults.append(sum(histogram) != steps)
    if histogram is not None and accepted is not None:
        faults.append(sum(i * count for i, count in enumerate(histogram)) != accepted)
    if row.drafted is not None and accepted is not None:
        faults.append(accepted > row.drafted)
    if row.ttft_s is not None and row.e2e_s is not None:
        faults.append(row.ttft_s > row.e2e_s)
    if asked is not None and found is not None:
        cut = row.finish_reason == "length"
        faults.append(not isinstance(asked, int) or (found != asked if cut else found > asked))
    if row.tpot_s is not None and tpot is not None:
        faults.append(not math.isclose(row.tpot_s, tpot, rel_tol=1e-3, abs_tol=1e-6))
    return not any(faults)


def missing(plan: Plan, rows: Sequence[Record]) -> str | None:
    drafting = {arm.name for arm in plan.arms if arm.draft}
    requests = [(p, s) for p in sorted({r.prompt_id for r in rows}) for s in plan.sampling]
    gaps = []
    for prompt, setting in requests:
        own = {arm.name: [r for r in rows if r.key == (prompt, arm.name, setting)]
               for arm in plan.arms}  # fmt: skip
        complete = [r for found in own.values() for r in found if r.error is None]
        needed = [
            [r.output_tokens, r.ttft_s, r.e2e_s]
            + ([r.steps, r.drafted, r.accepted] if r.arm in drafting else [])
            for r in complete
        ]
        if (
            not all(own.values())
            or any(None in numbers for numbers in needed)
            or len({r.quality is None for r in complete}) > 1
        ):
            gaps.append(f"{prompt}/{setting}")
    allowed = plan.missing_data.max_missing_share
    if not requests or len(gaps) / len(requests) <= allowed:
        return None
    return (
        f"{len(gaps)} of {len(requests)} requests lack a row or a number in some arm "
        f"({some(gaps)}); the plan allows {allowed:.1%}"
    )


def baseline_works(plan: Plan, rows: Sequence[Record]) -> str | None:
    own = [row for row in rows if row.arm == plan.baseline]
    failed = [row.request_id for row in own if row.error is not None]
    if not own or len(failed) / len(own) <= plan.missing_data.max_missing_share:
        return None
    return f"the baseline failed on {len(failed)} of {len(own)} requests ({some(failed)})"


def speculation(plan: Plan, rows: Sequence[Record]) -> str | None:
    for arm in plan.arms:
        own = [row for row in rows if row.arm == arm.name and row.error is None]
        drafted = sum(row.drafted or 0 for row in own)
        if arm.draft is None and drafted:
            return f"arm {arm.name} should decode plainly but drafted"
        if arm.draft is not None and own and not drafted:
            return f"arm {arm.name} never drafted a token"
        gamma = arm.num_speculative_tokens
        sizes = {len(row.acceptance_histogram) for row in own if row.acceptance_histogram}
        if gamma is not None and sizes - {gamma + 1}:
            return (
                f"arm {arm.name} should draft {gamma} tokens a step, its histograms say "
                f"{sorted(size - 1 for size in sizes)}"
            )
    return None
