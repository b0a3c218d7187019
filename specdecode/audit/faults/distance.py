"""How far a broken engine's law is from the target's, by enumeration of all draft blocks.

One step after a context emits 1 to G + 1 tokens. Over all V^G blocks, with the probability that the
draft draws each, the fault's own acceptance, count and weights give the exact law of what the step
emits. An observer does not see where steps begin: the token at position t may stand anywhere in a
step that began up to G positions earlier. With R_s the probability of the reply up to s together
with "a step begins at s",

    P(y_<t, y_t = x) = sum_s R_s · P(a step that begins at s emits y_s … y_{t-1}, x, …)
    R_t              = sum_s R_s · P(a step that begins at s emits y_s … y_{t-1} and ends)

so the law of y_t given all tokens before it is exact, and the distance of a position is half the
sum of its absolute differences from the target's law there. The mean is taken over positions of
replies that the target itself wrote.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specdecode.audit.faults.draft_faults import DraftFault
from specdecode.audit.faults.fault import Fault
from specdecode.audit.faults.parts import CORRECT, RuleParts
from specdecode.audit.faults.target_faults import TargetFault, wrong_laws
from specdecode.decoding.params import SamplingParams
from specdecode.errors import ConfigError
from specdecode.verification.types import DraftBlock

LARGEST_TREE = 20_000
"""Draft blocks that are enumerated at most, V^G."""

# Raw logits of (target [B, G + 1, V], draft [B, G, V]) after a context and each of B blocks [B, G].
TreeLogits = Callable[[list[int], Tensor], tuple[Tensor, Tensor]]


@dataclass(frozen=True, eq=False)
class Tree:
    """Everything that can be drafted after one context.

    Attributes:
        context: prompt and reply so far.
        prompt: the prompt alone.
        blocks: int64 [B, G], every block.
        target: float [B, G + 1, V], raw logits.
        draft: float [B, G, V], raw logits.
    """

    context: list[int]
    prompt: list[int]
    blocks: Tensor
    target: Tensor
    draft: Tensor


@dataclass(frozen=True, eq=False)
class StepLaw:
    """What one step after a context does.

    Attributes:
        blocks: int64 [B, G].
        drawn: float64 [B], probability that the draft draws the block.
        kept: float64 [B, G + 1], probability that 0..G tokens of it are kept.
        following: float64 [B, G + 1, V], law of the token after them.
        target: float [V], the target's law after the context.
    """

    blocks: Tensor
    drawn: Tensor
    kept: Tensor
    following: Tensor
    target: Tensor

    def emits(self, tokens: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Mass of beginning with `tokens` and one more, by that one: [V], ending there: [V].

        Args:
            tokens: the first tokens of the step, at most G.
        """
        j = len(tokens)
        G, V = self.blocks.shape[1], self.following.shape[2]
        begins = torch.tensor(list(tokens), dtype=torch.int64)
        weight = self.drawn * (self.blocks[:, :j] == begins).all(-1)
        ends = (weight * self.kept[:, j]) @ self.following[:, j]
        mass = ends.clone()
        if j < G:
            going_on = weight * self.kept[:, j + 1 :].sum(-1)
            mass += torch.zeros(V, dtype=torch.float64).index_add_(0, self.blocks[:, j], going_on)
        return mass, ends


@dataclass(frozen=True)
class Distance:
    """Total variation per token.

    Attributes:
        mean: over positions; between 0 and 1.
        error: standard error of the mean, replies as units; None for a single one.
        largest: of one position.
        positions: how many were looked at.
    """

    mean: float
    error: float | None
    largest: float
    positions: int


def all_blocks(vocab_size: int, gamma: int) -> Tensor:
    """Every block, int64 [V^G, G].

    Raises:
        ConfigError: there are more than `LARGEST_TREE`.
    """
    if vocab_size**gamma > LARGEST_TREE:
        raise ConfigError(
            f"{vocab_size}^{gamma} draft blocks are too many to enumerate (at most "
            f"{LARGEST_TREE}); use a smaller vocabulary or fewer draft tokens"
        )
    return torch.tensor(list(itertools.product(range(vocab_size), repeat=gamma)))


def trees(
    logits: TreeLogits, prompt: list[int], reply: list[int], vocab_size: int, gamma: int
) -> list[Tree]:
    """The tree at every position of a reply but the first, whose token no step emits."""
    blocks = all_blocks(vocab_size, gamma)
    found = []
    for t in range(1, len(reply)):
        context = prompt + reply[:t]
        target, draft = logits(context, blocks)
        found.append(Tree(context, prompt, blocks, target, draft))
    return found


def step_law(
    parts: RuleParts,
    tree: Tree,
    params: SamplingParams,
    draft: DraftFault | None = None,
    target: TargetFault | None = None,
) -> StepLaw:
    """The exact law of one step.

    Args:
        parts: of the rule that runs.
        tree: everything that can be drafted.
        params: of the request.
        draft: what is wrong with the draft.
        target: what is wrong with the target's laws; a stale cache is no law and is refused.

    Raises:
        ConfigError: the fault depends on earlier steps.
    """
    if target is not None and target.stale_cache:
        raise ConfigError("what a stale cache does depends on earlier steps: it has no step law")
    draft = draft or DraftFault()
    B, G = tree.blocks.shape
    asked = [_Asked(params, tree.context, tree.prompt)] * B
    right = wrong_laws(TargetFault(), tree.draft, asked, tree.blocks, [0] * B).double()
    stated = right
    if draft.states(params) != params:
        other = [_Asked(draft.states(params), tree.context, tree.prompt)] * B
        stated = wrong_laws(TargetFault(), tree.draft, other, tree.blocks, [0] * B).double()
    at = tree.blocks[:, :, None]
    drawn = draft.drawn(right.flatten(0, 1)).view_as(right).gather(-1, at)[:, :, 0].prod(-1)
    lengths = torch.full((B,), G)
    if draft.cut_below:
        lengths = draft.kept(tree.blocks, stated, lengths)
    seen = wrong_laws(target or TargetFault(), tree.target, asked, tree.blocks, lengths.tolist())
    plain = wrong_laws(TargetFault(), tree.target[:1, :1], asked[:1], tree.blocks[:1, :0], [0])
    block = DraftBlock(tree.blocks, stated, seen.double(), lengths)
    kept, following = _outcomes(parts, block)
    return StepLaw(tree.blocks, drawn, kept, following, plain[0, 0].double())


def distance(
    fault: Fault | None,
    verification: str,
    replies: Sequence[Sequence[Tree]],
    params: SamplingParams,
) -> Distance:
    """Mean total variation per token between a broken engine's law and the target's.

    Args:
        fault: what is broken; None for the right engine, whose distance is rounding.
        verification: "token" or "block".
        replies: trees of consecutive positions, by reply.
        params: of all of them.

    Raises:
        ConfigError: the fault does not fit the rule, or has no step law.
    """
    parts = CORRECT[verification] if fault is None else fault.parts(verification)
    draft, target = (None, None) if fault is None else (fault.draft, fault.target)
    gaps = []
    for reply in replies:
        laws = [step_law(parts, tree, params, draft, target) for tree in reply]
        gaps.append(_gaps(laws, reply))
    return mean_of(gaps)


def mean_of(gaps: Sequence[Sequence[float]]) -> Distance:
    """The mean of distances at positions, by reply.

    Raises:
        ConfigError: there is no position.
    """
    sums, counts = [sum(reply) for reply in gaps], [len(reply) for reply in gaps]
    total = sum(counts)
    if total == 0:
        raise ConfigError("no position was looked at: give replies of at least two tokens")
    mean = sum(sums) / total
    error = None
    if len(sums) > 1:
        spread = sum((s - mean * n) ** 2 for s, n in zip(sums, counts, strict=True))
        error = (spread * len(sums) / (len(sums) - 1)) ** 0.5 / total
    return Distance(mean, error, max(max(reply, default=0.0) for reply in gaps), total)


def _gaps(laws: Sequence[StepLaw], reply: Sequence[Tree]) -> list[float]:
    """Total variation at each position, given all tokens before it."""
    G = reply[0].blocks.shape[1]
    first = len(reply[0].context)
    tokens = reply[-1].context[first:]  # of all positions but the last
    begins = [1.0]  # R_s, up to a common factor
    gaps = []
    for t, law in enumerate(laws):
        mass = torch.zeros_like(law.target)
        ending = torch.zeros_like(law.target)
        for s in range(max(0, t - G), t + 1):
            if begins[s] > 0:
                one, ends = laws[s].emits(tokens[s:t])
                mass += begins[s] * one
                ending += begins[s] * ends
        total = float(mass.sum())
        if total <= 0:  # the broken engine never writes what comes here
            break
        gaps.append(float((mass / total - law.target).abs().sum()) / 2)
        if t < len(tokens):
            begins = [value / total for value in begins]
            begins.append(float(ending[tokens[t]]) / total)
    return gaps


def _outcomes(parts: RuleParts, block: DraftBlock) -> tuple[Tensor, Tensor]:
    """P(τ = k), float64 [B, G + 1], and the law after k kept tokens, float64 [B, G + 1, V]."""
    B, G = block.draft_tokens.shape
    plan = parts.acceptance(block)
    real = torch.arange(G)[None] < block.lengths[:, None]
    h = torch.where(real, plan.probability, torch.zeros_like(plan.probability))
    kept = torch.zeros(B, G + 1, dtype=torch.float64)
    for pattern in itertools.product((False, True), repeat=G):
        passes = torch.tensor(pattern)
        chance = torch.where(passes, h, 1 - h).prod(-1)
        kept[:, int(parts.count(passes[None])[0])] += chance
    following = []
    for k in range(G + 1):
        at = torch.minimum(torch.full((B,), k), block.lengths)
        weights = parts.weights(block, at, plan.scale).double()
        following.append(weights / weights.sum(-1, keepdim=True))
    return kept, torch.stack(following, 1)


@dataclass(frozen=True)
class _Asked:
    params: SamplingParams
    tokens: list[int]
    prompt: list[int]
