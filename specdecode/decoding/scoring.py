"""Teacher forcing: a network's logits for tokens that were emitted elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from specdecode.models import KVCache, LoadedModel
from specdecode.models.cache import RowState
from specdecode.models.network import CausalNetwork

Pair = tuple[Sequence[int], Sequence[int]]

_KEPT_BYTES = 512 * 2**20


class TeacherForcing:
    """Scores replies, and pays for a prompt once however many replies follow it.

    Args:
        model: a loaded model, or one of its networks.
        batch_tokens: most tokens in one pass, padding included (one sequence at the least).
        kept_bytes: most memory spent on states of prompts already read; the oldest go first.
    """

    def __init__(
        self,
        model: LoadedModel | CausalNetwork,
        *,
        batch_tokens: int = 2048,
        kept_bytes: int = _KEPT_BYTES,
    ) -> None:
        self._network = model.network if isinstance(model, LoadedModel) else model
        self._batch_tokens, self._kept_bytes = batch_tokens, kept_bytes
        self._states: dict[tuple[int, ...], RowState] = {}
        self._bytes = 0

    def score(self, pairs: Sequence[Pair]) -> Iterator[tuple[int, Tensor]]:
        """Score replies in padded batches.

        Args:
            pairs: (prompt token ids, reply token ids); neither may be empty.

        Yields:
            (index of the pair, float32 logits `[len(reply), V]`), in order; row t is what the
            model said before reply token t.
        """
        for group in _groups([len(reply) for _, reply in pairs], self._batch_tokens):
            yield from self._score_group([pairs[i] for i in group], group)

    def _score_group(self, pairs: list[Pair], names: list[int]) -> Iterator[tuple[int, Tensor]]:
        # The last prompt token is fed together with the reply: its row predicts the first token.
        prefixes = [tuple(prompt[:-1]) for prompt, _ in pairs]
        states = self._read(prefixes)
        fed = [[prompt[-1], *reply[:-1]] for prompt, reply in pairs]
        width = max(len(tokens) for tokens in fed)
        cache = KVCache(len(pairs), max(len(p) for p in prefixes) + width)
        for row, state in enumerate(states):
            cache.set_row(row, state)
        starts = [len(prefix) for prefix in prefixes]
        logits = self._network.forward(self._padded(fed, width), starts, cache)
        for row, name in enumerate(names):
            yield name, logits[row, : len(fed[row])]

    def _read(self, prefixes: list[tuple[int, ...]]) -> list[RowState]:
        """The state of each prefix, computed where it is not kept from before."""
        states = {p: self._states[p] for p in prefixes if p in self._states}
        states[()] = {}
        missing = [p for p in dict.fromkeys(prefixes) if p not in states]
        for group in _groups([len(p) for p in missing], self._batch_tokens):
            batch = [missing[i] for i in group]
            width = max(len(p) for p in batch)
            cache = KVCache(len(batch), width)
            tokens = self._padded([list(p) for p in batch], width)
            self._network.forward(tokens, [0] * len(batch), cache, select=[[0]] * len(batch))
            for row, prefix in enumerate(batch):
                states[prefix] = cache.copy_row(row, len(prefix))
                self._keep(prefix, states[prefix])
        return [states[p] for p in prefixes]

    def _keep(self, prefix: tuple[int, ...], state: RowState) -> None:
        self._states[prefix] = state
        self._bytes += _size(state)
        while self._bytes > self._kept_bytes:
            self._bytes -= _size(self._states.pop(next(iter(self._states))))

    def _padded(self, sequences: list[list[int]], width: int) -> Tensor:
        rows = [tokens + [0] * (width - len(tokens)) for tokens in sequences]
        return torch.tensor(rows, device=self._network.device)


def teacher_forced(
    model: LoadedModel | CausalNetwork, pairs: Sequence[Pair], *, batch_tokens: int = 2048
) -> Iterator[tuple[int, Tensor]]:
    """`TeacherForcing.score` once, without keeping anything."""
    yield from TeacherForcing(model, batch_tokens=batch_tokens).score(pairs)


def stepwise(model: LoadedModel | CausalNetwork, pair: Pair) -> Tensor:
    """Score a reply one token at a time, the shape of plain decoding.

    Args:
        model: a loaded model, or one of its networks.
        pair: (prompt token ids, reply token ids).

    Returns:
        float32 logits `[len(reply), V]`.
    """
    network = model.network if isinstance(model, LoadedModel) else model
    prompt, reply = list(pair[0]), list(pair[1])
    cache = KVCache(1, len(prompt) + len(reply))
    rows = [network.forward(_ids(network, prompt), [0], cache, select=[[len(prompt) - 1]])[0]]
    for offset, token in enumerate(reply[:-1]):
        rows.append(network.forward(_ids(network, [token]), [len(prompt) + offset], cache)[0])
    return torch.cat(rows)


def stepwise_over(target: CausalNetwork, draft: CausalNetwork, pair: Pair) -> Tensor:
    """Score a reply with a network that reads the target's states, one token at a time.

    That is how a draft over the target's cache draws the first token of a step.

    Args:
        target: whose states are read.
        draft: of the same layout, or its first layers.
        pair: (prompt token ids, reply token ids).

    Returns:
        float32 logits of the draft, `[len(reply), V]`.
    """
    prompt, reply = list(pair[0]), list(pair[1])
    cache = KVCache(1, len(prompt) + len(reply))
    read = len(prompt) - 1
    if read:
        target.forward(_ids(target, prompt[:-1]), [0], cache, select=[[read - 1]])
    rows = []
    for position, token in enumerate([prompt[-1], *reply[:-1]], start=read):
        rows.append(draft.forward(_ids(draft, [token]), [position], cache)[0])
        target.forward(_ids(target, [token]), [position], cache)  # in place of the draft's states
    return torch.cat(rows)


def _groups(lengths: list[int], most: int) -> Iterator[list[int]]:
    """Consecutive indices whose padded size stays within `most` tokens."""
    group: list[int] = []
    for index, length in enumerate(lengths):
        width = max([length, *(lengths[i] for i in group)])
        if group and width * (len(group) + 1) > most:
            yield group
            group = []
        group.append(index)
    if group:
        yield group


def _size(state: RowState) -> int:
    return sum(t.numel() * t.element_size() for pair in state.values() for t in pair)


def _ids(network: CausalNetwork, tokens: list[int]) -> Tensor:
    return torch.tensor([tokens], device=network.device)
