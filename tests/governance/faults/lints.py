"""Changes to the default plan, which has no finding, each of which one lint sees and no other."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from specdecode.governance import parse_plan
from specdecode.governance.lint import lint

Document = dict[str, Any]
Edit = Callable[[Document], object]
WATCHED = ("crossover_concurrency", "kv_capacity_tokens", "longest_context_tokens",
           "prefix_cache_hit_rate", "cold_start_s")  # fmt: skip


@dataclass(frozen=True)
class LintFault:
    """A change that makes a plan unfit; after `repair` as well it is fit again."""

    code: str
    planted: str
    beside: str
    plant: Edit
    repair: Edit
    start: Edit = lambda _: None

    @property
    def undone(self) -> bool:
        """Whether the neighbour is the plan without the change."""
        return self.repair is _nothing


@cache
def _default() -> Document:
    found: Document = yaml.safe_load(Path("plans/default.yaml").read_text("utf-8"))
    return found


def findings(*edits: Edit) -> list[str]:
    """Codes of what is wrong with the default plan after these edits."""
    document = copy.deepcopy(_default())
    for edit in edits:
        edit(document)
    return [finding.code for finding in lint(parse_plan(document))]


def the(where: str, name: str, **changes: Any) -> Edit:
    """An entry of a list changed, by its name."""
    return lambda document: next(e for e in document[where] if e["name"] == name).update(changes)


def field(name: str, value: Any) -> Edit:
    return lambda document: document.update({name: value})


def block(**changes: Any) -> Edit:
    return the("arms", "block", **changes)


def engine(name: str, **settings: Any) -> Edit:
    return block(engine={"name": name, "settings": settings})


def both(*edits: Edit) -> Edit:
    return lambda document: [edit(document) for edit in edits]


def without(where: str, name: str) -> Edit:
    return lambda document: document.update(
        {where: [entry for entry in document[where] if entry["name"] != name]}
    )


def metric(name: str, **changes: Any) -> Edit:
    entry = {
        "name": name,
        "transform": "none",
        "bounds": {"low": 0, "high": 10},
        "direction": "higher",
        "role": "guardrail",
        "margin": 1,
        "owner": "a team",
    }
    return lambda document: document["metrics"].append(entry | changes)


def untaught(category: str) -> Edit:
    """No stratum of this category any more."""

    def edit(document: Document) -> None:
        for strata in (document["strata"], *(r.get("strata", {}) for r in document["rules"])):
            if "category" in strata:
                strata["category"] = [name for name in strata["category"] if name != category]

    return edit


def _live(document: Document) -> None:
    """A canary that watches all that a live stage must watch."""
    for name in WATCHED:
        metric(name)(document)
    offline = next(stage for stage in document["stages"] if stage["name"] == "offline")
    document["stages"].append(offline | {
        "name": "canary", "rules": [], "metrics": ["error_rate"], "method": "betting",
        "alarm_alpha": 0.05, "unit": "request", "n_max": 10_000, "steps": [0.05, 0.25],
    })  # fmt: skip
    offline["metrics"] = list(WATCHED)  # no row of a request shows them
    document["traffic"]["concurrency"] = [1, 8]


def unwatched(name: str) -> Edit:
    return lambda document: document["stages"][0]["metrics"].remove(name)


def canary(**changes: Any) -> Edit:
    return the("stages", "canary", **changes)


def concurrency(*levels: int) -> Edit:
    return lambda document: document["traffic"].update(concurrency=list(levels))


def stop(**changes: Any) -> Edit:
    return lambda document: document["stop_conditions"][0].update(changes)


def effect(**changes: Any) -> Edit:
    return lambda document: document["power"]["effects"]["arms"]["block"].update(changes)


def _nothing(_: Document) -> None:
    """The plan as it is."""


GREEDY = both(field("sampling", ["greedy"]), the("rules", "block-over-token", sampling=None))
RATE = both(metric("acceptance_rate", transform="ratio", role="secondary", margin=None),
            without("rules", "block-over-token"))  # fmt: skip
VLLM = {"draft_sample_method": "probabilistic"}
OWNED = {"how": "by a planted fault", "when": "2026-11-29"}
FAULTS = (
    LintFault("block-one-hot", "a block arm whose draft decodes greedily", "it samples",
              block(draft_sampling="greedy"), block(draft_sampling="sampled")),
    LintFault("block-greedy", "a block arm, and greedy sampling only", "a token arm", GREEDY,
              block(verification="token"),
              both(the("rules", "block-quality", margin=0.2),
                   the("metrics", "quality", margin=0.2))),
    LintFault("rate-across-lengths", "acceptance rates compared at 7 and 5 drafted tokens",
              "5 and 5", block(num_speculative_tokens=7), block(num_speculative_tokens=None), RATE),
    LintFault("gain-across-lengths", "acceptance lengths compared at 7 and 5 drafted tokens",
              "7 and 7", block(num_speculative_tokens=7),
              the("arms", "token", num_speculative_tokens=7)),
    LintFault("lossy-acceptance", "vLLM with rejection_sample_method fly", "standard",
              engine("vllm", rejection_sample_method="fly", **VLLM),
              engine("vllm", rejection_sample_method="standard", **VLLM)),
    LintFault("dropped-draws", "llama.cpp that drops drafts it has sampled, p-min 0.4", "p-min 0",
              engine("llama.cpp", spec_draft_p_min=0.4, spec_draft_sampling="probabilistic"),
              engine("llama.cpp", spec_draft_p_min=0, spec_draft_sampling="probabilistic")),
    LintFault("metric-without-margin", "a primary metric without a margin", "with one",
              the("metrics", "output_tokens_per_s", margin=None),
              the("metrics", "output_tokens_per_s", margin=-0.1)),
    LintFault("margin-differs", "margin -0.2, the rule asks for 1.1", "margin -0.1",
              the("metrics", "output_tokens_per_s", margin=-0.2),
              the("metrics", "output_tokens_per_s", margin=-0.1)),
    LintFault("rule-without-metric", "a rule by tpot_s, which the metrics do not list",
              "they list it", without("metrics", "tpot_s"),
              metric("tpot_s", margin=0.1)),
    LintFault("threshold-without-why", "a reason of 'todo: find a better reason'", "a reason",
              the("rules", "block-tail", why="todo: find a better reason"),
              the("rules", "block-tail", why="users notice the slow replies")),
    LintFault("metric-without-owner", "a metric nobody owns", "somebody does",
              the("metrics", "ttft_s", owner=None), the("metrics", "ttft_s", owner="a team")),
    LintFault("unbounded-metric", "a time judged by betting, as it is", "as an indicator",
              both(canary(metrics=["error_rate", "e2e_s"]),
                   metric("e2e_s", bounds={"low": 0, "high": None}, margin=0.9)),
              the("metrics", "e2e_s", transform="indicator", limit=2.0), _live),
    LintFault("no-alarm-alpha", "a live stage that may raise any number of false alarms",
              "one in twenty", canary(alarm_alpha=None), canary(alarm_alpha=0.05), _live),
    LintFault("not-in-rows", "a live stage watches cold_start_s, which no request shows",
              "the offline stage alone does", canary(metrics=["error_rate", "cold_start_s"]),
              canary(metrics=["error_rate"]), _live),
    LintFault("not-judgeable", "a live stage looks at moments that the plan does not state",
              "at every moment", canary(method="group-sequential"), canary(method="betting"),
              _live),
    LintFault("failures-unwatched", "a live stage counts wasted rows and no failures",
              "failures too", canary(metrics=["target_tokens_per_output_token"]),
              canary(metrics=["target_tokens_per_output_token", "error_rate"]), _live),
    LintFault("alpha-over-total", "stages that may err by 5 % together, of a total of 4 %",
              "of 5 %", field("alpha_total", 0.04), field("alpha_total", 0.05)),
    LintFault("stop-without-owner", "a stop condition nobody owns", "somebody does",
              stop(owner=None), stop(owner="a team")),
    LintFault("recovery-untested", "a way back never tried", "tried",
              stop(tested=None), stop(tested=OWNED)),
    LintFault("n-max-too-small", "a gain of 1.12 supposed, 1.1 to be shown by 100 prompts", "1.3",
              effect(speed_ratio=1.12), effect(speed_ratio=1.3)),
    LintFault("longer-than-n-max", "a complete run has 101 prompts, n_max is 100", "100",
              field("prompts_expected", {"full": 101}), field("prompts_expected", {"full": 100})),
    LintFault("n-min-out-of-reach", "a rule waits for 101 prompts, n_max is 100", "for 100",
              the("rules", "block-tail", n_min=101), the("rules", "block-tail", n_min=100)),
    LintFault("no-tail-guardrail", "the tail only reports", "it is a guardrail",
              the("rules", "block-tail", role="secondary"),
              the("rules", "block-tail", role="guardrail")),
    LintFault("no-quality-guardrail", "quality only reports", "it is a guardrail",
              the("rules", "block-quality", role="secondary"),
              the("rules", "block-quality", role="guardrail")),
    LintFault("no-tool-stratum", "traffic with tool calls, no stratum of them",
              "traffic without them", untaught("tool_call"),
              lambda document: document["traffic"].update(contains=["structured_output"])),
    LintFault("no-structured-stratum", "traffic with structured output, no stratum of it",
              "traffic without it", untaught("extract_json"),
              lambda document: document["traffic"].update(contains=["tool_calls"])),
    LintFault("no-crossover", "a live stage does not watch crossover_concurrency", "it does",
              unwatched("crossover_concurrency"), _nothing, _live),
    LintFault("one-concurrency", "a live stage, a concurrency of 1 only", "1 and 2",
              concurrency(1), concurrency(1, 2), _live),
    LintFault("no-kv-capacity", "a live stage does not watch longest_context_tokens", "it does",
              unwatched("longest_context_tokens"), _nothing, _live),
    LintFault("no-prefix-cache", "a live stage does not watch prefix_cache_hit_rate", "it does",
              unwatched("prefix_cache_hit_rate"), _nothing, _live),
    LintFault("no-amplification", "a live stage, token amplification only reports", "a guardrail",
              the("rules", "block-amplification", role="secondary"),
              the("rules", "block-amplification", role="guardrail"), _live),
    LintFault("no-cold-start", "a live stage does not watch cold_start_s", "it does",
              unwatched("cold_start_s"), _nothing, _live),
)  # fmt: skip
