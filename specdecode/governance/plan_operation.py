"""What a plan says about the service around the decision: traffic, cost, recovery, people."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from specdecode.governance.strict import Date, Strict, Text

Count = Annotated[int, Field(ge=1)]
Days = Annotated[int, Field(ge=1, le=36_500)]
Hours = Annotated[float, Field(ge=0)]


class Traffic(Strict):
    """The load the claim is about."""

    source: Text = Field(description="where the requests come from")
    concurrency: list[Count] = Field(
        min_length=1, description="requests in flight at a time, every level that is measured"
    )
    longest_prompt_tokens: Count | None = Field(description="null: not known")
    longest_output_tokens: Count | None = Field(description="null: not known")
    contains: list[Literal["tool_calls", "structured_output", "long_context", "multi_turn"]] = (
        Field(description="kinds of request in it that speculation is known to harm first")
    )


class CostOfWrong(Strict):
    """What either mistake costs; the levels of the rules follow from it."""

    false_go: Text = Field(description="a harmful change goes live")
    false_no_go: Text = Field(description="a good change is turned down")


class Maintenance(Strict):
    """Effort that is expected; the report puts what it really took beside it."""

    hours_per_month: Hours = Field(description="to keep draft and configuration working")
    review_hours: Hours = Field(description="to review one release of it")


class Rehearsal(Strict):
    """A recovery that was tried out."""

    how: Text = Field(description="what was done")
    when: Date = Field(description="the day, YYYY-MM-DD")


class StopCondition(Strict):
    """When to stop, who does it, and how users get back what they had."""

    condition: Text = Field(description="what must not go on")
    precursor: Text = Field(description="earliest sign of it that can be observed")
    owner: Text | None = Field(description="who acts")
    recovery: Literal["fall_back", "roll_back", "hold", "escalate", "stop"] = Field(
        description="fall back to plain decoding at run time, roll the change back, hold it where "
        "it is, escalate, or stop the run"
    )
    tested: Rehearsal | None = Field(description="how and when the recovery was tried; null: never")


class Contingency(Strict):
    """A deviation foreseen: what may be done without making the result exploratory."""

    name: Text = Field(description="short name, which an amendment refers to")
    trigger: Text = Field(description="what has happened")
    action: Text = Field(description="what is then done")


class Approvals(Strict):
    """Who must sign a verdict before it is acted on."""

    required_roles: list[Text] = Field(description="one signature each; [] asks for none")
    distinct_persons: bool = Field(description="whether each signature needs another person")
    expires_days: Days = Field(description="days after which a signature no longer counts")
    signers_file: Text | None = Field(
        description="keys, roles and persons that may sign; null only where no role is required"
    )
