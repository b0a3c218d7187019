"""A draft that knows only some of the target's tokens.

Two ways to come by one: the models of a family pad their vocabularies to different sizes; and most
text needs few of the tokens, so that leaving the rare ones out of the draft's output head saves
most of its cost (Zhao et al., "FR-Spec", arXiv 2502.14856). Either way the draft's law gives the
other tokens probability exactly 0, in the target's own numbering. Verification stays lossless, as
it is for any draft law that is stated truly: the target's own tokens come in by resampling.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from specdecode.errors import ModelMismatchError
from specdecode.models.cache import KVCache
from specdecode.models.load import LoadedModel
from specdecode.models.network import CausalNetwork
from specdecode.models.source import DRAFT_VOCABULARY


class SubVocabularyNetwork:
    """A `CausalNetwork` over the target's vocabulary from one over a part of it.

    Args:
        network: its output row i scores token `target_ids[i]`; further rows are left out.
        target_ids: the tokens it can propose, each once.
        vocab_size: of the target.
        known: ids below this are in the network's embedding. Others, which only the target can have
            written, are read as token 0: it drafts worse after them, and no less honestly.
    """

    def __init__(
        self, network: CausalNetwork, target_ids: Sequence[int], vocab_size: int, known: int
    ) -> None:
        self.device, self.vocab_size = network.device, vocab_size
        self._network, self._known = network, known
        self._ids = torch.tensor(list(target_ids), device=self.device)

    def forward(
        self,
        tokens: Tensor,
        starts: list[int],
        cache: KVCache,
        select: list[list[int]] | None = None,
    ) -> Tensor:
        """See `CausalNetwork.forward`; logits of tokens left out are minus infinity."""
        readable = tokens.masked_fill(tokens >= self._known, 0)
        logits = self._network.forward(readable, starts, cache, select)
        full = logits.new_full((*logits.shape[:-1], self.vocab_size), float("-inf"))
        full[..., self._ids] = logits[..., : len(self._ids)]
        return full


def draft_network(target: LoadedModel, draft: LoadedModel) -> CausalNetwork:
    """A draft model's forward pass over the target's vocabulary.

    Args:
        target: the model it drafts for.
        draft: whose ids below the smaller vocabulary size mean the target's tokens. If its folder
            holds `draft_vocabulary.json`, with the ids to keep as `{"target_ids": [...]}`, its
            output head is cut to them, in place.

    Raises:
        ModelMismatchError: the list of ids is malformed, or names a token twice or none there is.
    """
    shared = min(target.vocab_size, draft.vocab_size)
    listed = draft.path / DRAFT_VOCABULARY
    if listed.is_file():
        ids = _read_ids(listed, shared)
        _cut_head(draft.module, ids)
    elif target.vocab_size == draft.vocab_size:
        return draft.network
    else:
        ids = list(range(shared))
    return SubVocabularyNetwork(draft.network, ids, target.vocab_size, draft.vocab_size)


def _read_ids(path: Path, vocab_size: int) -> list[int]:
    try:
        ids = json.loads(path.read_text(encoding="utf-8"))["target_ids"]
    except (ValueError, KeyError, TypeError) as error:
        raise _refused(path, f"cannot be read ({error!r})") from error
    if not isinstance(ids, list) or not ids or any(type(i) is not int for i in ids):
        raise _refused(path, "target_ids is no list of whole numbers with at least one of them")
    outside = [i for i in ids if not 0 <= i < vocab_size]
    if outside:
        raise _refused(
            path,
            f"id {outside[0]} is outside 0..{vocab_size - 1}, the tokens that target and draft "
            "share",
        )
    twice = [i for i, count in Counter(ids).items() if count > 1]
    if twice:
        raise _refused(path, f"id {twice[0]} is listed twice")
    return ids


def _refused(path: Path, problem: str) -> ModelMismatchError:
    return ModelMismatchError(
        f"'{path}': {problem}; write the token ids that the draft may propose, each once, as "
        '{"target_ids": [0, 1, …]}, or remove the file to draft with all of them'
    )


def _cut_head(module: Any, ids: list[int]) -> None:
    """Keep only these rows of a model's output head."""
    head = module.get_output_embeddings()
    weight = head.weight.data[ids]
    rows, columns = weight.shape
    bias = getattr(head, "bias", None)
    smaller = nn.Linear(columns, rows, bias=bias is not None, device="meta")
    smaller.weight = nn.Parameter(weight, requires_grad=False)
    if bias is not None:
        smaller.bias = nn.Parameter(bias.data[ids], requires_grad=False)
    module.set_output_embeddings(smaller)
