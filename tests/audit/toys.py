"""Small language models whose every law is known: the next token depends on the last one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from specdecode.audit.directions import centred_bets, directions
from specdecode.audit.eprocess import log_growth, log_mixture, weights_of
from specdecode.errors import ConfigError

EmissionLaw = Callable[[Tensor, Tensor], Tensor]
EOS = 0


def tables(vocab: int = 24, noise: float = 0.7, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Target and draft logits by last token: float64 [V, V] each."""
    generator = torch.Generator().manual_seed(seed)
    target = 2 * torch.randn(vocab, vocab, generator=generator, dtype=torch.float64)
    other = noise * torch.randn(vocab, vocab, generator=generator, dtype=torch.float64)
    return target, target + other


def top_k(logits: Tensor, k: int) -> Tensor:
    border = logits.topk(k, dim=-1).values[..., -1:]
    return logits.masked_fill(logits < border, -math.inf)


def from_target(p: Tensor, q: Tensor) -> Tensor:
    del q
    return p


def from_draft(p: Tensor, q: Tensor) -> Tensor:
    del p
    return q


def residual_is_target(p: Tensor, q: Tensor) -> Tensor:
    accepted = torch.minimum(p, q)
    return accepted + (1 - accepted.sum(-1, keepdim=True)) * p


def argmax_of_target(p: Tensor, q: Tensor) -> Tensor:
    del q
    return torch.nn.functional.one_hot(p.argmax(-1), p.shape[-1]).to(p.dtype)


def greedy_draft_declared_as_softmax(p: Tensor, q: Tensor) -> Tensor:
    drafted = argmax_of_target(q, q)
    accept = ((drafted * p).sum(-1) / (drafted * q).sum(-1)).clamp(max=1).unsqueeze(-1)
    residual = (p - q).clamp(min=0)
    return drafted * accept + (1 - accept) * residual / residual.sum(-1, keepdim=True)


def half_temperature(p: Tensor, q: Tensor) -> Tensor:
    del q
    return p.square() / p.square().sum(-1, keepdim=True)


def walk(law: Tensor, runs: int, length: int, rng: np.random.Generator) -> np.ndarray:
    """Emitted tokens int64 [runs, length + 1]; column 0 is the start, law [V, V] by last token."""
    cumulative = law.cumsum(-1).numpy()
    cumulative /= cumulative[:, -1:]
    tokens = np.empty((runs, length + 1), dtype=np.int64)
    tokens[:, 0] = rng.integers(len(law), size=runs)
    for t in range(length):
        coins = rng.random(runs)[:, None]
        tokens[:, t + 1] = (cumulative[tokens[:, t]] <= coins).sum(-1)
    return tokens


def bet_table(p: Tensor, q: Tensor | None) -> np.ndarray:
    """Bets by (last token, emitted token): float64 [V, V, D]."""
    vocab = len(p)
    columns = [
        centred_bets(
            p,
            torch.full((vocab,), token),
            q,
            directions(with_draft=q is not None),
        )
        for token in range(vocab)
    ]
    return torch.stack(columns, dim=1).numpy()


def log_evidence(tokens: np.ndarray, p: Tensor, q: Tensor | None) -> np.ndarray:
    """Log e after each token of each run: [runs, length]."""
    bets = bet_table(p, q)[tokens[:, :-1], tokens[:, 1:]]
    weights = weights_of(list(directions(with_draft=q is not None)))
    return np.stack([log_mixture(np.cumsum(log_growth(run), axis=0), weights) for run in bets])


class ToyScorer:
    """A scorer over tables; `shake` is the size of the shape-dependent numerical error."""

    def __init__(
        self,
        target: Tensor,
        draft: Tensor | None = None,
        shake: float = 0.0,
        eos: Sequence[int] = (),
    ) -> None:
        self._target, self._draft, self._shake = target, draft, shake
        self.vocab_size = len(target)
        self.eos_token_ids = frozenset(eos)
        self.max_context: int | None = None
        self.has_draft = draft is not None

    def decode(self, token_ids: Sequence[int]) -> str:
        return "".join(chr(97 + token) for token in token_ids)

    def encode(self, prompt: object, where: str) -> list[int]:
        if not isinstance(prompt, str):
            raise ConfigError(f"{where} is no text, and the toy has no chat template")
        return [ord(letter) - 97 for letter in prompt]

    def target(self, pairs: Sequence[tuple[list[int], list[int]]]) -> Iterator[tuple[int, Tensor]]:
        for index, (prompt, output) in enumerate(pairs):
            yield index, self._rows(self._target, prompt, output)

    def draft(self, pairs: Sequence[tuple[list[int], list[int]]]) -> Iterator[tuple[int, Tensor]]:
        assert self._draft is not None
        for index, (prompt, output) in enumerate(pairs):
            yield index, self._rows(self._draft, prompt, output)

    def one_by_one(self, prompt: list[int], output: list[int]) -> Tensor:
        rows = self._rows(self._target, prompt, output)
        generator = torch.Generator().manual_seed(len(output))
        noise = torch.rand(rows.shape, generator=generator, dtype=rows.dtype) * 2 - 1
        return rows + self._shake * noise

    def draft_one_by_one(self, prompt: list[int], output: list[int]) -> Tensor:
        assert self._draft is not None
        return self._rows(self._draft, prompt, output)

    @staticmethod
    def _rows(table: Tensor, prompt: list[int], output: list[int]) -> Tensor:
        last = [prompt[-1], *output[:-1]] if output else []
        return table[torch.tensor(last, dtype=torch.int64)].to(torch.float32)
