"""The arms of a plan: what is compared, and which exact files each is made of."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue, model_validator

from specdecode.governance.strict import Sha256, Strict, Text

EngineName = Literal["specdecode", "vllm", "sglang", "tensorrt-llm", "llama.cpp", "speculators"]


class Engine(Strict):
    """What serves the arm, where that is not this project's own engine."""

    name: EngineName = Field(description="whose settings these are")
    settings: dict[Text, JsonValue] = Field(
        description="speculation settings as given to the engine, flags without their dashes; "
        "`plan check` refuses those that change the output's distribution"
    )


class Digests(Strict):
    """SHA-256 of what the arm is made of."""

    target: Sha256 | None = Field(None, description="target weights")
    draft: Sha256 | None = Field(None, description="draft weights")
    tokenizer: Sha256 | None = Field(None, description="tokenizer")
    chat_template: Sha256 | None = Field(None, description="chat template")
    preprocessing: Sha256 | None = Field(None, description="code or rules applied to a prompt")
    policy_files: dict[Text, Sha256] | None = Field(
        None, description="system prompts and policy files, by path"
    )
    retrieval_index: Sha256 | None = Field(None, description="index that replies draw on")
    config: Sha256 | None = Field(None, description="configuration of the engine")
    serving_code: Sha256 | None = Field(None, description="code that serves the arm")
    hardware_class: Text | None = Field(None, description="machine class, by name")
    others: Literal["manifest"] | None = Field(
        description="who pins what is null above: `manifest`, that of the run; null when nothing is"
    )

    @model_validator(mode="after")
    def _nothing_unpinned(self) -> Self:
        left = [n for n in type(self).model_fields if n != "others" and getattr(self, n) is None]
        if left and self.others is None:
            raise ValueError(
                f"nobody pins {', '.join(left)}: give digests, or others: manifest to leave them "
                "to the run's manifest"
            )
        return self


class Arm(Strict):
    """One way of decoding that is measured."""

    name: Text = Field(description="as in the rows")
    role: Literal["baseline", "candidate", "comparator"] = Field(
        description="baseline: what users have now; candidate: what may replace it; comparator: "
        "measured beside them and judged by no primary rule of its own"
    )
    draft: Text | None = Field(description="what proposes tokens; null decodes plainly")
    draft_sampling: Literal["sampled", "greedy"] | None = Field(
        None, description="how the draft picks a token; null leaves it to the run's parameters"
    )
    verification: Literal["token", "block", "greedy-block", "match"] | None = Field(
        description="acceptance rule; null decodes plainly"
    )
    num_speculative_tokens: Annotated[int, Field(ge=1)] | None = Field(
        None, description="γ; null leaves it to the run's parameters, which the manifest pins"
    )
    engine: Engine | None = Field(None, description="null: this project's own engine")
    digests: Digests = Field(description="what the arm is made of")

    @model_validator(mode="after")
    def _draft_with_verification(self) -> Self:
        if (self.draft is None) != (self.verification is None):
            raise ValueError("draft and verification go together: set both or neither")
        if self.draft is None and self.num_speculative_tokens is not None:
            raise ValueError("an arm without a draft has no num_speculative_tokens")
        if self.draft is None and self.draft_sampling is not None:
            raise ValueError("an arm without a draft has no draft_sampling")
        if self.role == "baseline" and self.draft is not None:
            raise ValueError("the baseline decodes plainly: draft and verification must be null")
        return self
