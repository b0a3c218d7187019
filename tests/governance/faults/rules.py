"""Rows on which exactly one rule of the plan fails, and rows a little better on which none does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from specdecode.governance import Plan, Status, Verdict, decide
from specdecode.governance.rules import AnyRule
from specdecode.governance.rules.base import Rule
from specdecode.measurement.records import Record, to_table
from tests.governance.plans import ERRORS, WHY, small_plan
from tests.measurement.factories import audit, run

CLASSES: tuple[type[Rule], ...] = get_args(get_args(AnyRule)[0])
KINDS = {get_args(cls.model_fields["kind"].annotation)[0]: cls for cls in CLASSES}
"""Every kind of rule a plan may use."""

_OF_BLOCK = {"arm": "block", "role": "guardrail", "level": 0.95, "n_min": 8, "why": WHY}
RULES: dict[str, dict[str, Any]] = {
    "speed_ratio": {"threshold": 1.1},
    "quality_non_inferiority": {"margin": 0.2},
    "tail_latency": {"metric": "ttft_s", "quantile": 0.95, "threshold": 1.1},
    "acceptance_length": {"threshold": 2.0},
    "token_amplification": {"threshold": 2.5},
    "efficiency_gain": {"versus": "token", "threshold": 0.75},
    "strata": {
        "measure": "speed_ratio",
        "strata": {"difficulty": ["normal", "hard"]},
        "threshold": 0.8,
        "n_min": 4,
        "insufficient": "inconclusive",
    },
}
RULES = {kind: _OF_BLOCK | fields | {"kind": kind, "name": kind} for kind, fields in RULES.items()}
RULES["error_rate"] = ERRORS | {"name": "error_rate", "max_rate": 1 / 48}
SCORES = RULES["strata"] | {"name": "strata of scores", "measure": "quality_difference",
                            "strata": {"language": ["en"]}, "threshold": -0.1}  # fmt: skip


def plan(**changes: Any) -> Plan:
    """A plan with every kind of rule; `changes` replace rules by kind (losslessness is fixed)."""
    return small_plan(*(RULES | changes).values(), SCORES)


@dataclass(frozen=True)
class Measured:
    """Rows as `run` makes them, and the audit's words on the arms."""

    rows: Mapping[str, Any] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)

    def records(self) -> list[Record]:
        return run(**({"prompts": 24} | self.rows))

    def verdict(self, of: Plan | None = None) -> Verdict:
        records = self.records()
        return decide(of or plan(), to_table(records), audit(records, **self.words))


@dataclass(frozen=True)
class RuleFault:
    """A fault only one rule sees.

    rule: its name. planted, beside: the fault and its neighbour in words. answer: of the gate.
    """

    rule: str
    planted: str
    beside: str
    fault: Measured
    neighbour: Measured
    answer: Status = Status.NO_GO


Fields = dict[str, Any]


def changed(change: Callable[[Fields], Fields], prompts: int = 24, **match: Any) -> Measured:
    """Rows of the block arm (or as `match` says) changed."""
    wanted = {"arm": ("block",)} | match

    def apply(fields: Fields) -> Fields:
        hit = all(fields[name] in values for name, values in wanted.items())
        return fields | change(fields) if hit else fields

    return Measured({"change": apply, "prompts": prompts})


def later(seconds: float) -> Measured:
    """First tokens of some prompts come later, and so does everything after them."""
    names = [f"p{index:04d}" for index in range(0, 24, 3)]
    return changed(
        lambda f: {"ttft_s": f["ttft_s"] + seconds, "e2e_s": f["e2e_s"] + seconds},
        prompt_id=names,
    )


def slower(times: float, **match: Any) -> Measured:
    """What follows the first token takes this many times as long."""

    def change(fields: Fields) -> Fields:
        rest = (fields["e2e_s"] - fields["ttft_s"]) * times
        return {"e2e_s": fields["ttft_s"] + rest, "tpot_s": rest / (fields["output_tokens"] - 1)}

    return changed(change, **match)


def accepting(**arms: tuple[int, int]) -> Measured:
    """Each row of an arm has this many steps with four drafts accepted, and this many with none."""

    def change(fields: Fields) -> Fields:
        full, none = arms[fields["arm"]]
        return {"steps": full + none, "accepted": 4 * full, "drafted": 4 * (full + none),
                "acceptance_histogram": [none, 0, 0, 0, full]}  # fmt: skip

    return changed(change, arm=tuple(arms))


SCORED = 144
"""Prompts where scores decide: their interval assumes no more of a score than that it lies between
0 and 1, so that it takes more of them to tell."""


def scoring(**arms: float) -> Measured:
    """The score of every checked reply that is not English."""
    return changed(lambda f: {"quality": None if f["quality"] is None else arms[f["arm"]]}, SCORED,
                   arm=tuple(arms), language=("de", "ja", "fr", "es", "zh", "pt"))  # fmt: skip


def failing(*prompts: str) -> Measured:
    return changed(lambda _: {"error": "NaN logits"}, prompt_id=prompts,
                   request_id=[f"{prompt}/greedy/block" for prompt in prompts])  # fmt: skip


def computing(times: int) -> Measured:
    return changed(lambda f: {"target_tokens": times * f["output_tokens"]})


GOOD = Measured()
FAULTS = (
    RuleFault("speed_ratio", "the arm is as fast as the baseline, 1.1 is asked for",
              "1.2 times as fast", Measured({"speed": 1.0}), Measured({"speed": 1.2})),
    RuleFault("quality_non_inferiority", "of replies not in English the baseline's are all right, "
              "the arm's all wrong", "all of both are right", scoring(plain=1.0, block=0.0),
              scoring(plain=1.0, block=1.0)),
    RuleFault("tail_latency", "every third prompt waits a second for its first token",
              "a thousandth of a second", later(1.0), later(0.001)),
    RuleFault("acceptance_length", "1.89 tokens a step, 2 are asked for", "exactly 2",
              accepting(block=(2, 7), token=(2, 7)), accepting(block=(1, 3), token=(1, 3))),
    RuleFault("token_amplification", "3 rows computed for each token, 2.5 are allowed", "2 rows",
              computing(3), computing(2)),
    RuleFault("efficiency_gain", "2.2 tokens a step, the other arm 3.0: 0.733, asked is 0.75",
              "2.25 and 3.0: exactly 0.75", accepting(block=(3, 7), token=(1, 1)),
              accepting(block=(5, 11), token=(1, 1))),
    RuleFault("error_rate", "2 of 48 requests fail, 1 may", "1 of 48 fails",
              failing("p0003", "p0005"), failing("p0003")),
    RuleFault("strata", "hard prompts at 0.7 of the baseline's speed, the average above 1.1",
              "at 0.9 of it", slower(2.2, difficulty=("hard",)),
              slower(1.7, difficulty=("hard",))),
    RuleFault("strata of scores", "no English reply is right, all others are as they were",
              "all are as they were",
              changed(lambda f: {"quality": f["quality"] and 0.0}, SCORED, language=("en",)),
              Measured({"prompts": SCORED})),
    RuleFault("block-lossless", "the audit calls the arm biased", "it calls it lossless",
              Measured(words={"block": "biased"}), GOOD),
    RuleFault("token-lossless", "the audit calls the comparator biased", "it calls it lossless",
              Measured(words={"token": "biased"}), GOOD),
    RuleFault("block-lossless", "the audit cannot decide about the arm", "it calls it lossless",
              Measured(words={"block": "undecided"}), GOOD, Status.INCONCLUSIVE),
    RuleFault("block-lossless", "the audit says a word that is none of its three",
              "it says lossless", Measured(words={"block": "fine"}), GOOD, Status.INVALID),
)  # fmt: skip
