"""The simple alternatives, for the reader: the int4 weights themselves, and llama.cpp.

Both are fast. Neither gives the target's distribution, which is what speculation is for; so beside
the time stands how far the distribution moves.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import torch

from pipelines.bench.turns import BenchPrompt, Row
from specdecode import Engine, SamplingParams
from specdecode.decoding.scoring import teacher_forced
from specdecode.errors import SpecdecodeError
from specdecode.models import LoadedModel
from specdecode.models.linear import int4, int4_rounded, rescored

LLAMA_CPP = "xllamacpp"


class _Quantised:
    """A loaded model whose network multiplies with int4 weights."""

    def __init__(self, model: LoadedModel) -> None:
        self._model = model
        self.network = model.build_network(int4, rescored(int4))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


def alternatives(
    target: LoadedModel, gguf: Path | None, prompts: Sequence[BenchPrompt], tokens: int
) -> tuple[dict[str, Any], list[Row]]:
    """Time them in turns with plain and speculative decoding; say how far each law is off.

    Args:
        target: the model of record.
        gguf: its GGUF file, for llama.cpp; None leaves that out.
        prompts: shared.
        tokens: length of each reply.
    """
    quantised = Engine(_Quantised(target), None, "block", 0)  # type: ignore[arg-type]
    engines = {
        "plain": Engine.load(target),
        "self-int4": Engine.load(target, "self-int4"),
        "plain with int4 weights": quantised,
    }
    server, why_not = _llama_cpp(gguf)
    rows: list[Row] = []
    for index, prompt in enumerate([prompts[0], *prompts]):
        params = SamplingParams(max_tokens=tokens, temperature=0, ignore_eos=True)
        row: Row = {"section": "alternatives", "prompt": prompt.name}
        for name, engine in engines.items():
            timing = engine.generate([prompt.ids], params)[0].timing
            row[name] = 1e3 * (timing.tpot_s or 0)
        if server is not None:
            row["llama.cpp Q4_1"] = _ask(server, prompt.ids, tokens)
        if index:  # the first round warms up
            rows.append(row)
    names = [name for name in rows[0] if name not in ("section", "prompt")]
    means = {name: round(sum(r[name] for r in rows) / len(rows), 3) for name in names}
    return {
        "ms_per_token": means,
        "distance_of_int4_weights": _distance(target, prompts, tokens),
        "llama_cpp": _version() if server is not None else {"missing": why_not},
    }, rows


def _distance(target: LoadedModel, prompts: Sequence[BenchPrompt], tokens: int) -> dict[str, float]:
    """How far the int4 weights move the target's law, on the target's own replies (T = 1)."""
    engine = Engine.load(target)
    replies = [
        engine.generate([p.ids], SamplingParams(max_tokens=tokens, seed=i, ignore_eos=True))[0]
        for i, p in enumerate(prompts)
    ]
    pairs = [(r.prompt_token_ids, r.token_ids) for r in replies]
    other = target.build_network(int4_rounded, rescored(int4_rounded))
    positions = flipped = 0
    variation = divergence = 0.0
    scored = zip(teacher_forced(target, pairs), teacher_forced(other, pairs), strict=True)
    for (_, exact), (_, rounded) in scored:
        p, q = exact.double().log_softmax(-1), rounded.double().log_softmax(-1)
        variation += float((p.exp() - q.exp()).abs().sum()) / 2
        divergence += float((p.exp() * (p - q)).sum())
        flipped += int((p.argmax(-1) != q.argmax(-1)).sum())
        positions += len(p)
    return {
        "positions": positions,
        "mean_total_variation": round(variation / positions, 5),
        "mean_kl_nats": round(divergence / positions, 6),
        "share_of_positions_with_another_greedy_token": round(flipped / positions, 5),
    }


def _llama_cpp(gguf: Path | None) -> tuple[Any, str | None]:
    if gguf is None:
        return None, "the target does not come from a GGUF file"
    try:
        library = import_module(LLAMA_CPP)
    except ImportError:
        return None, f"{LLAMA_CPP} is not installed: pip install {LLAMA_CPP}"
    settings = library.CommonParams()
    settings.model.path = str(gguf)
    settings.n_ctx, settings.n_parallel = 2048, 1
    settings.cpuparams.n_threads = torch.get_num_threads()
    return library.Server(settings), None


def _version() -> dict[str, str]:
    return {"package": LLAMA_CPP, "version": metadata.version(LLAMA_CPP)}


def _ask(server: Any, prompt: list[int], tokens: int) -> float:
    """Milliseconds per token after the prompt, greedily, without reuse of an earlier prompt."""
    answers: list[Any] = []
    server.handle_completions(
        {
            "prompt": prompt,
            "n_predict": tokens,
            "ignore_eos": True,
            "temperature": 0.0,
            "cache_prompt": False,
            "stream": False,
        },
        answers.append,
    )
    deadline = time.monotonic() + 60
    while not answers and time.monotonic() < deadline:
        time.sleep(0.001)
    if not answers:
        raise SpecdecodeError("llama.cpp gave no answer within 60 s: leave it out of the bench")
    answer = json.loads(answers[-1]) if isinstance(answers[-1], str) else answers[-1]
    return float(answer["timings"]["predicted_per_token_ms"])
