"""Answers in OpenAI's shapes, with what vLLM adds."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from specdecode.decoding import GenerationResult, TokenLogprobs
from specdecode.serving.asks import Ask
from specdecode.serving.replies import Drafting

_UNFINISHED = "\ufffd"  # stands for bytes that are no whole character, and which they are is lost


@dataclass(frozen=True)
class Answer:
    """Makes the documents of one request.

    Attributes:
        ask: the request.
        id: shown to the client.
        model: its name.
        tokenizer: for the text of single tokens; None if there is none.
        num_speculative_tokens: γ; 0 without a draft.
        fingerprint: says which software and configuration answered.
        created: seconds since 1970.
    """

    ask: Ask
    id: str
    model: str
    tokenizer: Any
    num_speculative_tokens: int
    fingerprint: str
    created: int = field(default_factory=lambda: int(time.time()))

    def whole(
        self, results: Sequence[GenerationResult], drafting: Sequence[Drafting], queue_s: float
    ) -> dict[str, Any]:
        """The document of a request that is not streamed."""
        chat = self.ask.is_chat
        document = self._head("chat.completion" if chat else "text_completion")
        document["choices"] = [self._choice(i, result) for i, result in enumerate(results)]
        if self.ask.return_token_ids and chat:
            document["prompt_token_ids"] = list(results[0].prompt_token_ids)
        return {
            **document,
            "usage": self.usage(results),
            "metrics": self.metrics(results, drafting, queue_s),
        }

    def first(self, index: int, prompt: Sequence[int]) -> dict[str, Any]:
        """The event that opens a chat reply."""
        event = self._event(index, {"role": "assistant", "content": ""}, None, None)
        return event | ({"prompt_token_ids": list(prompt)} if self.ask.return_token_ids else {})

    def piece(
        self,
        index: int,
        text: str,
        *,
        tokens: Sequence[int],
        logprobs: Sequence[TokenLogprobs],
        finish_reason: str | None,
        offset: int,
        prompt: Sequence[int] | None = None,
    ) -> dict[str, Any]:
        """One event of a stream; the first one of a completion is told its prompt."""
        shown = self._logprobs(logprobs, offset) if self.ask.logprobs is not None else None
        event = self._event(index, {"content": text} if text else {}, shown, finish_reason, text)
        if self.ask.return_token_ids:
            event["choices"][0]["token_ids"] = list(tokens)
            if prompt is not None:
                event["choices"][0]["prompt_token_ids"] = list(prompt)
        return event

    def last(
        self, results: Sequence[GenerationResult], drafting: Sequence[Drafting], queue_s: float
    ) -> dict[str, Any]:
        """The event with the usage, for those that asked for it."""
        kind = "chat.completion.chunk" if self.ask.is_chat else "text_completion"
        return {
            **self._head(kind),
            "choices": [],
            "usage": self.usage(results),
            "metrics": self.metrics(results, drafting, queue_s),
        }

    def usage(self, results: Sequence[GenerationResult]) -> dict[str, Any]:
        """Tokens read and written; a prompt counts once, however many replies it has."""
        prompts = results[:: self.ask.params.n]
        read = sum(len(r.prompt_token_ids) for r in prompts)
        written = sum(len(r.token_ids) for r in results)
        return {
            "prompt_tokens": read,
            "completion_tokens": written,
            "total_tokens": read + written,
        }

    def metrics(
        self, results: Sequence[GenerationResult], drafting: Sequence[Drafting], queue_s: float
    ) -> dict[str, Any] | None:
        """What vLLM tells of one reply; null where there are several."""
        if len(results) != 1:
            return None
        timing, tokens, counts = results[0].timing, len(results[0].token_ids), drafting[0]
        generation_s = timing.e2e_s - timing.ttft_s
        return {
            "time_to_first_token_ms": 1000 * (timing.ttft_s - queue_s),  # from being scheduled
            "generation_time_ms": 1000 * generation_s,
            "queue_time_ms": 1000 * queue_s,
            "mean_itl_ms": None if timing.tpot_s is None else 1000 * timing.tpot_s,
            "tokens_per_second": (tokens - 1) / generation_s if generation_s > 0 else None,
            "speculative_decoding": self._speculative(counts),
            "acceptance_guard": {
                "plain_steps": counts.plain_steps,
                "switches": list(counts.switches),
            },
            "draft_failure": results[0].draft_failure,
        }

    def _speculative(self, counts: Drafting) -> dict[str, Any] | None:
        if not self.num_speculative_tokens or not counts.steps:
            return None
        return {
            "mean_acceptance_length": 1 + counts.accepted / counts.steps,
            "draft_acceptance_rate": counts.accepted / counts.drafted,
            "acceptance_histogram": list(counts.histogram),
            "num_spec_steps": counts.steps,
            "num_accepted_draft_tokens": counts.accepted,
            "num_draft_tokens": counts.drafted,
            "num_spec_tokens": self.num_speculative_tokens,
        }

    def length(self, entries: Sequence[TokenLogprobs]) -> int:
        """Characters by which tokens move the `text_offset` of those behind them."""
        return sum(len(self._text(entry.token_id)) for entry in entries)

    def _choice(self, index: int, result: GenerationResult) -> dict[str, Any]:
        text = result.text or ""
        body: dict[str, Any] = (
            {"message": {"role": "assistant", "content": text, "refusal": None}}
            if self.ask.is_chat
            else {"text": text}
        )
        shown = None
        if self.ask.logprobs is not None:
            shown = self._logprobs(result.logprobs or (), 0)
        choice = {
            "index": index,
            **body,
            "logprobs": shown,
            "finish_reason": result.finish_reason,
        }
        if self.ask.return_token_ids:
            choice["token_ids"] = list(result.token_ids)
            if not self.ask.is_chat:
                choice["prompt_token_ids"] = list(result.prompt_token_ids)
        return choice

    def _event(
        self,
        index: int,
        delta: dict[str, Any],
        logprobs: dict[str, Any] | None,
        finish_reason: str | None,
        text: str = "",
    ) -> dict[str, Any]:
        chat = self.ask.is_chat
        choice = {
            "index": index,
            **({"delta": delta} if chat else {"text": text}),
            "logprobs": logprobs,
            "finish_reason": finish_reason,
        }
        head = self._head("chat.completion.chunk" if chat else "text_completion")
        with_usage = {"usage": None} if self.ask.include_usage else {}
        return {**head, "choices": [choice], **with_usage}

    def _head(self, kind: str) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": self.fingerprint,
        }

    def _logprobs(self, entries: Sequence[TokenLogprobs], offset: int) -> dict[str, Any]:
        most = self.ask.logprobs or 0
        if self.ask.is_chat:
            content = [
                {
                    **self._named(entry.token_id, entry.logprob),
                    "top_logprobs": [self._named(t, value) for t, value in entry.top[:most]],
                }
                for entry in entries
            ]
            return {"content": content, "refusal": None}
        texts = [self._text(entry.token_id) for entry in entries]
        starts = [offset + sum(map(len, texts[:place])) for place in range(len(texts))]
        return {
            "tokens": texts,
            "token_logprobs": [entry.logprob for entry in entries],
            "top_logprobs": [
                {self._text(t): value for t, value in entry.top[:most]} for entry in entries
            ]
            if most
            else None,
            "text_offset": starts,
        }

    def _named(self, token: int, logprob: float) -> dict[str, Any]:
        text = self._text(token)
        known = None if _UNFINISHED in text else list(text.encode())
        return {"token": text, "logprob": logprob, "bytes": known}

    def _text(self, token: int) -> str:
        return f"token_id:{token}" if self.tokenizer is None else self.tokenizer.decode([token])
