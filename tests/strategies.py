"""Hypothesis generators of the project's own objects: laws, models, draft blocks, coins."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import torch
from hypothesis import strategies as st
from torch import Tensor

from specdecode.verification import Coins

Law = tuple[Fraction, ...]
Model = Callable[[tuple[int, ...]], Law]


def laws(vocabulary: int, *, zeros: bool = True) -> st.SearchStrategy[Law]:
    """Probability laws in fractions; with ``zeros``, tokens of probability zero occur."""
    weight = st.integers(0 if zeros else 1, 6)
    weights = st.lists(weight, min_size=vocabulary, max_size=vocabulary).filter(any)
    return weights.map(lambda ws: tuple(Fraction(w, sum(ws)) for w in ws))


def model_from_seed(seed: int, vocabulary: int, *, kind: str = "zeros") -> Model:
    """A model whose law depends on the whole prefix.

    Args:
        seed: equal seeds give equal models.
        vocabulary: V.
        kind: "positive" laws, "zeros" with tokens of probability zero, or "one-hot".
    """

    @cache
    def model(prefix: tuple[int, ...]) -> Law:
        source = random.Random(f"{seed}/{prefix}")  # noqa: S311 - reproducible, not secret
        if kind == "one-hot":
            hot = source.randrange(vocabulary)
            return tuple(Fraction(int(x == hot)) for x in range(vocabulary))
        least = 1 if kind == "positive" else 0
        weights = [source.choice((least, 1, 2, 3, 5)) for _ in range(vocabulary)]
        if not any(weights):
            weights[source.randrange(vocabulary)] = 1
        return tuple(Fraction(w, sum(weights)) for w in weights)

    return model


@dataclass(frozen=True)
class ModelPair:
    """A target and a draft over one vocabulary, small enough to enumerate."""

    target: Model
    draft: Model
    vocabulary: int
    gamma: int
    label: str

    def __repr__(self) -> str:
        """Enough to rebuild the pair by hand."""
        return f"ModelPair({self.label}, V={self.vocabulary}, γ={self.gamma})"


@st.composite
def model_pairs(
    draw: st.DrawFn,
    *,
    target_kinds: tuple[str, ...] = ("positive", "zeros", "one-hot"),
    draft_kinds: tuple[str, ...] = ("positive", "zeros", "one-hot", "identical"),
    max_gamma: int = 3,
) -> ModelPair:
    """Context-dependent pairs with V 2 to 4 and γ 1 to ``max_gamma``; larger V gets smaller γ."""
    vocabulary = draw(st.integers(2, 4))
    longest = {2: 4, 3: 3, 4: 3}[vocabulary]
    gamma = draw(st.integers(1, min(max_gamma, longest)))
    seed = draw(st.integers(0, 10**6))
    target_kind, draft_kind = (
        draw(st.sampled_from(target_kinds)),
        draw(st.sampled_from(draft_kinds)),
    )
    target = model_from_seed(2 * seed, vocabulary, kind=target_kind)
    same = draft_kind == "identical"
    draft = target if same else model_from_seed(2 * seed + 1, vocabulary, kind=draft_kind)
    label = f"seed {seed}: {target_kind} target, {draft_kind} draft"
    return ModelPair(target, draft, vocabulary, gamma, label)


uniforms = st.floats(0, math.nextafter(1, 0), allow_nan=False)
"""Coins in [0, 1), both ends of the range included."""


@dataclass(frozen=True)
class Inputs:
    """Arguments of a verification rule."""

    draft_tokens: Tensor
    draft_probs: Tensor
    target_probs: Tensor
    coins: Coins
    lengths: Tensor

    def row(self, b: int) -> Inputs:
        """Row ``b`` alone and without its padding."""
        n, one = int(self.lengths[b]), slice(b, b + 1)
        return Inputs(
            self.draft_tokens[one, :n],
            self.draft_probs[one, :n],
            self.target_probs[one, : n + 1],
            Coins(self.coins.accept[one, :n], self.coins.resample[one]),
            self.lengths[one],
        )

    def run(self, rule: Callable, **options: bool):
        """Call ``rule`` on these arguments."""
        return rule(
            self.draft_tokens,
            self.draft_probs,
            self.target_probs,
            self.coins,
            self.lengths,
            **options,
        )


def inputs_from_seed(
    seed: int,
    *,
    batch: int,
    gamma: int,
    vocabulary: int,
    ragged: bool = False,
    temperature: float = 2.0,
) -> Inputs:
    """Honest arguments: draft tokens drawn from their rows.

    Some draft rows equal the target's, some are one-hot, and zeros are common.
    """
    rng = torch.Generator().manual_seed(seed)

    def rows(count: int) -> Tensor:
        logits = temperature * torch.randn(batch, count, vocabulary, generator=rng).double()
        if vocabulary > 1:
            kept = torch.rand(batch, count, vocabulary, generator=rng) > 0.3
            kept[..., 0] |= ~kept.any(-1)
            logits = logits.masked_fill(~kept, -math.inf)
        return torch.softmax(logits, -1)

    draft, target = rows(gamma), rows(gamma + 1)
    equal = torch.rand(batch, gamma, 1, generator=rng) < 0.2
    draft = torch.where(equal, target[:, :gamma], draft)
    hot = torch.rand(batch, gamma, 1, generator=rng) < 0.15
    draft = torch.where(hot, torch.eye(vocabulary).double()[draft.argmax(-1)], draft)
    tokens = torch.multinomial(draft.reshape(-1, vocabulary), 1, generator=rng)
    lengths = torch.full((batch,), gamma)
    if ragged:
        lengths = torch.randint(0, gamma + 1, (batch,), generator=rng)
    accept = torch.rand(batch, gamma, generator=rng, dtype=torch.float64)
    resample = torch.rand(batch, generator=rng, dtype=torch.float64)
    return Inputs(tokens.view(batch, gamma), draft, target, Coins(accept, resample), lengths)


@st.composite
def inputs(draw: st.DrawFn, *, ragged: bool = True) -> Inputs:
    """Honest arguments of any shape from 1 x 1 x 1 upwards."""
    return inputs_from_seed(
        draw(st.integers(0, 10**6)),
        batch=draw(st.integers(1, 5)),
        gamma=draw(st.integers(1, 5)),
        vocabulary=draw(st.integers(1, 70)),
        ragged=ragged,
        temperature=draw(st.sampled_from((0.3, 2.0, 6.0))),
    )
