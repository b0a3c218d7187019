"""What an external engine is asked when its outputs are to be audited, and the rows that come back.

Prompts go out as token ids and replies come back as token ids: text would have to be tokenised
again, and may not be what was emitted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from pipelines.console import say
from pipelines.external.servers import NAME
from specdecode import SamplingParams
from specdecode.errors import EngineError
from specdecode.workload.compile import ChatTokenizer, encode
from specdecode.workload.engines import adapter_of
from specdecode.workload.prompts import load_prompts

PROMPTS = Path("eval_sets/prompts")
CLIENTS = 16
REPLY = 32
"""Tokens of each reply that does not end by itself."""

SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "t1": {"temperature": 1.0},
    "t1-may-end": {"temperature": 1.0, "ignore_eos": False},
    "t0.7-top_p": {"temperature": 0.7, "top_p": 0.9},
    "t1-top_k": {"temperature": 1.0, "top_k": 20},
    "t1-min_p": {"temperature": 1.0, "min_p": 0.05},
    "t0.9-repetition": {"temperature": 0.9, "repetition_penalty": 1.2},
    "t1-presence-frequency": {
        "temperature": 1.0,
        "presence_penalty": 0.6,
        "frequency_penalty": 0.3,
    },
    "all": {
        "temperature": 0.8,
        "top_k": 50,
        "top_p": 0.95,
        "repetition_penalty": 1.1,
        "presence_penalty": 0.2,
    },
    "greedy": {"temperature": 0.0},
}
"""Ways to sample, by name. min_p stands alone: vLLM applies it before top-p, this project after."""

_LONGEST_PROMPT = 80
_DEADLINE_S = 1200.0


@dataclass(frozen=True)
class Ask:
    """One request.

    Attributes:
        index: place in the order.
        setting: name of the way to sample.
        prompt_id: of the evaluation set.
        prompt: token ids.
        params: sampling parameters.
    """

    index: int
    setting: str
    prompt_id: str
    prompt: list[int]
    params: SamplingParams

    def body(self) -> dict[str, Any]:
        """JSON for the completions API."""
        asked = self.params.model_dump(exclude_unset=True)
        return {"model": NAME, "prompt": self.prompt, "return_token_ids": True, **asked}


def asks(tokenizer: ChatTokenizer, rounds: int, seed: int) -> list[Ask]:
    """Every way to sample, `rounds` times each, all on prompts that are short.

    Args:
        tokenizer: of the target.
        rounds: requests of each way to sample.
        seed: of the first request; the next ones count up.
    """
    prompts = [(p.prompt_id, encode(p, tokenizer)) for p in load_prompts(PROMPTS)]
    short = [(name, ids) for name, ids in prompts if len(ids) <= _LONGEST_PROMPT]
    step = max(1, len(short) // rounds)  # the file is sorted by category: take from all of it
    chosen = short[::step][:rounds]
    return [
        Ask(
            index,
            setting,
            *chosen[turn % len(chosen)],
            SamplingParams(
                **{"ignore_eos": True, "max_tokens": REPLY, "seed": seed + index, **parameters}
            ),
        )
        for index, (turn, (setting, parameters)) in enumerate(
            (turn, each) for turn in range(rounds) for each in SETTINGS.items()
        )
    ]


def send(url: str, requests: Sequence[Ask], arm: str) -> Iterator[dict[str, Any]]:
    """Send them, several at a time; one row for each, those that were refused included.

    Args:
        url: base address of vLLM.
        requests: in order.
        arm: stands in the rows.

    Yields:
        Rows, as they come.

    Raises:
        EngineError: the server failed, is gone, or did not tell token ids.
    """
    with (
        httpx.Client(base_url=url, timeout=_DEADLINE_S, trust_env=False) as client,
        ThreadPoolExecutor(CLIENTS) as pool,
    ):

        def one(ask: Ask) -> dict[str, Any]:
            try:
                answer = client.post("/v1/completions", json=ask.body())
            except httpx.HTTPError as error:
                raise EngineError(f"request {ask.index} of arm {arm}: {error}") from error
            return row_of(ask, arm, answer)

        waiting = [pool.submit(one, ask) for ask in requests]
        try:
            for number, done in enumerate(as_completed(waiting), 1):
                yield done.result()
                say(f"{arm}: {number}/{len(requests)}")
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def row_of(ask: Ask, arm: str, answer: httpx.Response) -> dict[str, Any]:
    """The row of one answer.

    Raises:
        EngineError: the server failed, or did not tell token ids.
    """
    row: dict[str, Any] = {
        "arm": arm,
        "prompt_id": ask.prompt_id,
        "setting": ask.setting,
        "order_index": ask.index,
        "seed": ask.params.seed,
        "sampling": ask.params.model_dump(mode="json"),
        "prompt_token_ids": ask.prompt,
        "output_token_ids": None,
        "finish_reason": None,
        "drafted": None,
        "accepted": None,
        "steps": None,
        "error": None,
    }
    if answer.status_code == 400:  # it says that it cannot do this; that is no failure of a reply
        return row | {"error": f"HTTP 400: {_message(answer)}"}
    if not answer.is_success:
        raise EngineError(f"request {ask.index}: HTTP {answer.status_code}: {_message(answer)}")
    body = answer.json()
    choice = body["choices"][0]
    if choice.get("prompt_token_ids") != ask.prompt or choice.get("token_ids") is None:
        raise EngineError(
            f"request {ask.index}: the reply does not repeat the prompt's token ids or has none of "
            "its own; vLLM does with return_token_ids"
        )
    told = adapter_of("vllm").of_reply([body]).record_fields()
    return row | {
        "output_token_ids": choice["token_ids"],
        "finish_reason": choice["finish_reason"],
        **{name: told.get(name) for name in ("drafted", "accepted", "steps")},
    }


def _message(answer: httpx.Response) -> str:
    try:
        body = answer.json()
        return str(body.get("error", body).get("message", body))[:300]
    except (ValueError, AttributeError):
        return answer.text[:300]
