"""The seven questions behind a plan, and the answers they take.

A question is a field of `Answers`, its parts are the fields of that field's model; descriptions are
what a person is asked. Defaults are offered where most services would say the same.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from specdecode.errors import ConfigError
from specdecode.governance.strict import Date, Positive, Share, Strict, Text
from specdecode.governance.yaml_file import problems, read_yaml

Count = Annotated[int, Field(ge=1)]
Texts = Annotated[list[Text], Field(min_length=1)]


class Purpose(Strict):
    """Purpose: what is to be decided, by whom, and what for?"""

    name: Text = Field(description="short name of the plan")
    decision: Text = Field(description="what is done or left undone by the answer")
    claim: Text = Field(description="what a GO would mean, in one sentence")
    owner: Text = Field(description="who owns the decision")
    bottleneck: Text = Field(description="what limits the service today, that this should relieve")


class Mechanism(Strict):
    """Mechanism: how are tokens proposed and accepted?"""

    draft: Text = Field(description="what proposes tokens, such as self-int4 or a model's name")
    verification: Literal["token", "block", "greedy-block", "match"] = Field(
        "block", description="acceptance rule: token, block, greedy-block or match"
    )
    num_speculative_tokens: Count = Field(5, description="tokens drafted before a verification")
    acceptance_length: Annotated[float, Field(ge=1)] = Field(
        3.0, description="tokens a step you expect, bonus included"
    )


class Baseline(Strict):
    """Baseline: what do users have now, and under which load?"""

    population: Text = Field(description="the traffic the claim is about, and what it leaves out")
    source: Text = Field(description="where the measured requests come from")
    concurrency: Annotated[list[Count], Field(min_length=2)] = Field(
        [1, 4, 16], description="numbers of requests in flight that are measured, two or more"
    )
    peak_concurrency: Count = Field(16, description="requests in flight at the production peak")
    longest_prompt_tokens: Count = Field(description="longest prompt, tokens")
    longest_output_tokens: Count = Field(description="longest reply, tokens")
    simplest_alternative: Text = Field(
        description="the least that could relieve the bottleneck too, and why it is not enough"
    )


class Evidence(Strict):
    """Evidence: what must be shown, on how many prompts?"""

    prompts: Annotated[int, Field(ge=60)] = Field(
        120, description="prompts of the offline run, and again of the confirmation"
    )
    least_speed_ratio: Positive = Field(1.1, description="speed ratio that would be worth it")
    speed_ratio: Positive = Field(description="speed ratio you expect")
    quality: Share = Field(0.7, description="mean score of replies today, 0 to 1")
    quality_margin: Annotated[float, Field(gt=0, lt=1)] = Field(
        0.1, description="largest loss of mean score that counts as none"
    )
    tool_categories: Texts = Field(
        ["tool_call"], description="prompt categories with tool calls, 'tool' in their names"
    )
    structured_categories: Texts = Field(
        ["structured_output"],
        description="prompt categories with structured output, 'json' or 'struct' in their names",
    )
    other_categories: Texts = Field(
        ["chat", "code", "long_context"], description="all other prompt categories"
    )


class Operation(Strict):
    """Operation: what does it take to run it, and what must not suffer?"""

    team: Text = Field(description="who runs the service and answers for its numbers")
    latency_limit_s: Positive = Field(description="seconds a whole reply may take")
    longest_context_tokens: Count = Field(
        description="longest context that must still fit beside the draft's cache, tokens"
    )
    cold_start_limit_s: Positive = Field(120.0, description="seconds a restart may take")
    hours_per_month: Annotated[float, Field(ge=0)] = Field(2.0, description="hours of upkeep")
    review_hours: Annotated[float, Field(ge=0)] = Field(4.0, description="hours a review takes")
    signers_file: Text = Field(
        "plans/signers.json", description="file with the keys that may sign an approval"
    )


class Risk(Strict):
    """Risk: what does a wrong answer cost, and what would overturn it?"""

    false_go: Text = Field(description="what happens when a harmful change goes live")
    false_no_go: Text = Field(description="what happens when a good change is turned down")
    overturned_by: Texts = Field(description="findings that would overturn the claim after a GO")
    reopen_when: Texts = Field(description="what would have to change to ask again after a no")


class Recovery(Strict):
    """Recovery: how do users get back what they had?"""

    owner: Text = Field(description="who acts when it goes wrong, at night too")
    roll_back_how: Text = Field(description="how rolling the change back was tried out")
    roll_back_when: Date = Field(description="when that was, YYYY-MM-DD")
    fall_back_how: Text = Field(
        description="how falling back to plain decoding at run time was tried out"
    )
    fall_back_when: Date = Field(description="when that was, YYYY-MM-DD")


class Answers(Strict):
    """All seven."""

    purpose: Purpose = Field(description="what is to be decided, by whom, and what for")
    mechanism: Mechanism = Field(description="how tokens are proposed and accepted")
    baseline: Baseline = Field(description="what users have now, and under which load")
    evidence: Evidence = Field(description="what must be shown, on how many prompts")
    operation: Operation = Field(description="what it takes to run it, what must not suffer")
    risk: Risk = Field(description="what a wrong answer costs, what would overturn it")
    recovery: Recovery = Field(description="how users get back what they had")


def load_answers(path: Path) -> Answers:
    """Read answers from YAML: the seven questions with their parts.

    Raises:
        ConfigError: no such file, not YAML, or a part is missing, unknown or out of range.
    """
    try:
        return Answers.model_validate(read_yaml(path, "file of answers"))
    except ValidationError as error:
        raise ConfigError(f"{path}: not the seven answers\n{problems(error)}") from error
