"""A plan written from seven answers, with the reason beside every line that needs one.

It covers what teams turned speculation down for: quality, tool calls and structured output by
themselves, the concurrency at which the gain turns into a loss, cache capacity and the longest
context left, prefix-cache hits, token amplification, cold start, tail latency.
"""

from __future__ import annotations

import json
import re
from importlib.resources import files
from io import StringIO

import yaml

from specdecode.errors import ConfigError
from specdecode.governance.lint import lint
from specdecode.governance.plan import parse_plan
from specdecode.governance.plan_answers import Answers

_SLOT = re.compile(r"<<(\w+)>>")
# What JSON leaves as it is and YAML reads as the end of a line, or not at all.
_NOT_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def plan_of(answers: Answers) -> str:
    """The text of a plan that `plan check` accepts.

    Raises:
        ConfigError: the answers lead to a plan with errors; names each and what to do. Nothing is
            smoothed over: an effect that is too small for the prompts, say, stays one.
    """
    slots = _slots(answers)
    template = files(__package__).joinpath("plan_template.yaml").read_text("utf-8")
    text = _SLOT.sub(lambda found: slots[found[1]], template)
    plan = parse_plan(yaml.safe_load(StringIO(text)), "the answers")
    errors = [finding for finding in lint(plan) if finding.severity == "error"]
    if errors:
        told = "\n".join(f"  {f.code}: {f.message}; {f.remedy}" for f in errors)
        raise ConfigError(f"these answers lead to a plan that would not be accepted\n{told}")
    return text


def _slots(answers: Answers) -> dict[str, str]:
    """Each slot of the template as YAML; JSON is YAML, and quotes whatever needs quoting."""
    evidence, mechanism = answers.evidence, answers.mechanism
    parts = {
        name: value
        for question in answers.model_dump().values()
        for name, value in question.items()
    }
    checked = evidence.tool_categories + evidence.structured_categories
    parts |= {
        "owner": answers.purpose.owner,
        "owner_of_recovery": answers.recovery.owner,
        "arm": mechanism.verification,
        "categories": checked + evidence.other_categories,
        "checked_categories": checked,
        "needed_gain": round(1 - evidence.least_speed_ratio, 6),
        "most_rows": mechanism.num_speculative_tokens + 1,
        "most_wasted": round(0.5 * (mechanism.num_speculative_tokens + 1), 6),
        "least_length": round(min(2.0, mechanism.acceptance_length), 6),
        "quality_loss": -evidence.quality_margin,
        "half_output": max(2, answers.baseline.longest_output_tokens // 2),
    }
    return {name: _yaml(value) for name, value in parts.items()}


def _yaml(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return _NOT_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
