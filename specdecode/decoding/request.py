"""One request while it is decoded: its tokens, its coins, its counts, and where it ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from torch import Tensor

from specdecode.decoding.coins import CoinStream
from specdecode.decoding.logprobs import TokenLogprobs, token_logprobs
from specdecode.decoding.params import SamplingParams
from specdecode.decoding.stopping import StopStrings
from specdecode.decoding.trace import StepTrace

FinishReason = Literal["stop", "length"]


@dataclass
class StageSeconds:
    """Seconds a batch spent drafting, and in target passes plus verification."""

    draft: float = 0.0
    verify: float = 0.0

    def since(self, earlier: StageSeconds) -> StageSeconds:
        """What came after an earlier reading."""
        return StageSeconds(self.draft - earlier.draft, self.verify - earlier.verify)

    def copy(self) -> StageSeconds:
        """The present reading."""
        return StageSeconds(self.draft, self.verify)


@dataclass(eq=False)
class Request:
    """State of one row of the batch.

    Attributes:
        prompt: token ids of the prompt.
        params: its sampling parameters.
        seed: the seed in force (drawn if the request gave none).
        eos_token_ids: tokens that end it.
        tokenizer: for text and stop strings; None if the model has none.
        limit: most output tokens (max_tokens, or what the context window leaves).
        sample_index: which of the replies to its prompt it is.
        batch_size: requests it was decoded together with, itself included.
        output: token ids of the reply so far, a token that ended it included.
        histogram: how many verify steps kept 0, 1, … draft tokens.
        drafted: draft tokens proposed.
        undrafted: verify steps in which nothing was proposed.
        target_tokens: target rows computed after the prompt.
        finish_reason: why it ended; None while it has not.
        stopped_at: where in the decoded text a stop string begins.
        first_token_s: seconds from the call to the first token.
        last_token_s: seconds from the call to the newest token.
        started: clock reading when it was asked for; both token times count from here.
        seconds: stage times of its batch while it was in it.
        trace: one entry per verify step, if asked for.
        logprobs: one entry per output token, if asked for.
        draft_failure: why nothing was drafted from some step on; None if all went well.
    """

    prompt: list[int]
    params: SamplingParams
    seed: int
    eos_token_ids: frozenset[int]
    tokenizer: Any
    limit: int
    sample_index: int = 0
    batch_size: int = 1
    output: list[int] = field(default_factory=list)
    histogram: list[int] = field(default_factory=list)
    drafted: int = 0
    undrafted: int = 0
    target_tokens: int = 0
    finish_reason: FinishReason | None = None
    stopped_at: int | None = None
    first_token_s: float | None = None
    last_token_s: float | None = None
    started: float = 0.0
    seconds: StageSeconds = field(default_factory=StageSeconds)
    trace: list[StepTrace] = field(default_factory=list)
    logprobs: list[TokenLogprobs] = field(default_factory=list)
    draft_failure: str | None = None

    def __post_init__(self) -> None:
        self.coins = CoinStream(self.seed, self.prompt, self.sample_index)
        stop = self.params.stop
        self._stop_strings = StopStrings(self.tokenizer, stop) if stop else None

    def draw_anew(self, before: int) -> None:
        """Take coins of its own for a drafter that remembers `before` batches; not once begun."""
        self.coins = CoinStream(self.seed, self.prompt, self.sample_index, before)

    def restarted(self) -> Request:
        """The same request before its first token."""
        return Request(
            prompt=self.prompt,
            params=self.params,
            seed=self.seed,
            eos_token_ids=self.eos_token_ids,
            tokenizer=self.tokenizer,
            limit=self.limit,
            sample_index=self.sample_index,
        )

    @property
    def tokens(self) -> list[int]:
        """Prompt and reply so far."""
        return self.prompt + self.output

    @property
    def length(self) -> int:
        """Number of tokens so far, prompt included."""
        return len(self.prompt) + len(self.output)

    @property
    def steps(self) -> int:
        """Verify steps so far; the token that the prompt's own pass yields is not one."""
        return sum(self.histogram)

    @property
    def step(self) -> int:
        """Number of the step under way, which keys its coins; 0 until the first token is drawn.

        Counted by the request itself, so that its coins do not depend on when it joined a batch.
        """
        return self.steps + 1 if self.output else 0

    @property
    def accepted(self) -> int:
        """Draft tokens kept in the reply."""
        return sum(count * kept for kept, count in enumerate(self.histogram))

    def append(self, tokens: list[int]) -> int:
        """Take over tokens until the reply ends; return how many were taken.

        Token ids, text and counts are cut at the same place: at an end-of-reply token, at the token
        that completes a stop string, or at the limit.
        """
        for taken, token in enumerate(tokens, start=1):
            self.output.append(token)
            if self._ends_with(token):
                self.finish_reason = "stop"
            elif len(self.output) >= self.limit:
                self.finish_reason = "length"
            if self.finish_reason is not None:
                return taken
        return len(tokens)

    def count_step(self, kept: int, drafted: int, width: int) -> None:
        """Record a verify step: draft tokens kept and proposed, target rows computed."""
        self.histogram.extend([0] * (kept + 1 - len(self.histogram)))
        self.histogram[kept] += 1
        self.drafted += drafted
        self.undrafted += drafted == 0
        self.target_tokens += width

    def report_logprobs(self, logits: Tensor | None, tokens: list[int]) -> None:
        """Look up tokens just taken over in the raw logits `[R, V]` that predicted them."""
        if self.params.logprobs and logits is not None:
            self.logprobs += token_logprobs(logits, tokens, self.params.logprobs)

    def text(self) -> str | None:
        """The reply as text, without special tokens and stop strings; None without tokenizer."""
        if self.tokenizer is None:
            return None
        decoded = str(self.tokenizer.decode(self.output, skip_special_tokens=True))
        return decoded if self.stopped_at is None else decoded[: self.stopped_at]

    def _ends_with(self, token: int) -> bool:
        if token in self.eos_token_ids and not self.params.ignore_eos:
            return True
        if self._stop_strings is not None:
            self.stopped_at = self._stop_strings.first(self.output)
        return self.stopped_at is not None
