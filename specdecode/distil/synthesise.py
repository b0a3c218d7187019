"""Part 1: the target writes conversations, and its law after each token is stored beside them.

A shard depends on the settings, its stream and its number, and on nothing that was made before it:
what a kill cost is made again, byte for byte. The laws are computed once, here, and read in every
pass of the training.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from specdecode.decoding import Engine, SamplingParams
from specdecode.distil.settings import SynthesisSettings
from specdecode.distil.template import Turns, encoded, turns_of
from specdecode.distil.texts import (
    CONTEXT,
    GIVEN_TURN,
    REPLY,
    WRITTEN_TURN,
    Conversation,
    read_page,
    scored_positions,
    write_shard,
)
from specdecode.distil.withheld import Withheld
from specdecode.errors import EngineError
from specdecode.models import KVCache, LoadedModel
from specdecode.models.fingerprint import sha256_file
from specdecode.workload.progress import progress
from specdecode.workload.prompts import Prompt

TRAIN, HELD_OUT, GIVEN = "train", "held-out", "given"
_EMPTY_SHARDS = 3

Enough = Callable[[], bool]
"""Whether the time for writing is used up."""


@dataclass(frozen=True)
class Writer:
    """The target at its desk.

    Attributes:
        engine: decodes plainly.
        settings: what it writes.
        withheld: texts that meet these are dropped, and counted.
    """

    engine: Engine
    settings: SynthesisSettings
    withheld: Withheld

    def shard(
        self, stream: str, index: int, given: Sequence[Prompt] = ()
    ) -> tuple[list[Conversation], int]:
        """The conversations of a shard, and how many were dropped.

        Args:
            stream: which stream of random numbers.
            index: of the shard in it.
            given: user turns from a file; without them the target writes its own.
        """
        model = self.engine.target
        heads: list[tuple[Turns, tuple[int, ...]]]
        if given:
            heads = [(turns_of(model, p.system), encoded(model, p.turns[0])) for p in given]
        else:
            turns = turns_of(model)
            written = self._write([turns.before] * self._size(stream, index), stream, index, "user")
            heads = [(turns, ids) for ids in written]
        texts = [(*turns.before, *user, *turns.between) for turns, user in heads]
        longest = model.max_context - 1
        usable = [i for i, (_, user) in enumerate(heads) if user and len(texts[i]) <= longest]
        replies = self._write([texts[i] for i in usable], stream, index, "reply", usable)
        made: list[Conversation] = []
        for i, reply in zip(usable, replies, strict=True):
            turns, user = heads[i]
            if self._may_stay(user, reply):
                kinds = [CONTEXT] * len(turns.before)
                kinds += [GIVEN_TURN if given else WRITTEN_TURN] * len(user)
                kinds += [CONTEXT] * len(turns.between) + [REPLY] * len(reply)
                made.append(self._scored([*texts[i], *reply], kinds))
        return made, len(heads) - len(made)

    def _size(self, stream: str, index: int) -> int:
        size = self.settings.shard
        return min(size, self.settings.held_out - index * size) if stream == HELD_OUT else size

    def _write(
        self,
        prompts: Sequence[Sequence[int]],
        stream: str,
        index: int,
        part: str,
        rows: Sequence[int] | None = None,
    ) -> list[tuple[int, ...]]:
        """What the target goes on with; a user's turn without the token that ended it."""
        if not prompts:
            return []
        settings, is_turn = self.settings, part == "user"
        params = [
            SamplingParams(
                max_tokens=settings.user_tokens if is_turn else settings.reply_tokens,
                temperature=settings.temperatures[row % len(settings.temperatures)],
                seed=_seed(settings.seed, stream, index, part, row),
            )
            for row in (rows or range(len(prompts)))
        ]
        results = self.engine.generate([list(prompt) for prompt in prompts], params)
        ends = self.engine.target.eos_token_ids if is_turn else frozenset()
        return [tuple(i for i in r.token_ids if i not in ends) for r in results]

    def _may_stay(self, user: Sequence[int], reply: Sequence[int]) -> bool:
        if not reply:
            return False
        tokenizer = self.engine.target.tokenizer
        turn, said = (tokenizer.decode(ids, skip_special_tokens=True) for ids in (user, reply))
        return not self.withheld.meets(turn=turn, reply=said)

    def _scored(self, tokens: list[int], kinds: list[int]) -> Conversation:
        marks = torch.tensor(kinds, dtype=torch.uint8)
        probs = target_laws(self.engine.target, tokens, scored_positions(marks))
        top = probs.topk(min(self.settings.kept, probs.shape[1]), dim=-1)
        tail = (1 - top.values.sum(-1)).clamp_min(0)
        return Conversation(
            torch.tensor(tokens), marks, top.indices.cpu(), top.values.cpu(), tail.cpu()
        )


def target_laws(model: LoadedModel, tokens: Sequence[int], positions: Tensor) -> Tensor:
    """The model's law of the tokens at some positions, at temperature 1: float32 `[R, V]`."""
    return logits_before(model.network, tokens, positions).softmax(-1)


def logits_before(network: Any, tokens: Sequence[int], positions: Tensor) -> Tensor:
    """Logits after the tokens before each position: float32 `[R, V]`.

    One text at a time: its numbers then do not depend on what it is scored with.
    """
    before = [position - 1 for position in positions.tolist()]
    read = list(tokens[: before[-1] + 1])
    cache = KVCache(1, len(read))
    logits: Tensor = network.forward(
        torch.tensor([read], device=network.device), [0], cache, select=[before]
    )[0]
    return logits


def synthesise(
    writer: Writer,
    folder: Path,
    prompts: Sequence[Prompt],
    is_enough: Enough,
    watch: Callable[[str], None],
) -> list[dict[str, Any]]:
    """Write what is missing of all shards, and return the pages of all.

    Args:
        writer: the target.
        folder: of the shards.
        prompts: further user turns.
        is_enough: asked after each shard for training.
        watch: called after each shard with its name.

    Raises:
        EngineError: the target writes nothing that may be used.
    """
    settings = writer.settings

    def shard(stream: str, index: int, given: Sequence[Prompt] = ()) -> dict[str, Any]:
        return _shard(writer, folder, stream, index, given=given, watch=watch)

    pages = [shard(HELD_OUT, i) for i in range(-(-settings.held_out // settings.shard))]
    for index in range(-(-len(prompts) // settings.shard)):
        piece = prompts[index * settings.shard : (index + 1) * settings.shard]
        pages.append(shard(GIVEN, index, piece))
    done = index = empty = 0
    with progress("tokens written", settings.tokens, 0) as advance:
        while done < settings.tokens and not (index and is_enough()):
            page = shard(TRAIN, index)
            for _ in range(min(page["tokens"], settings.tokens - done)):
                advance(page["name"])
            done, index = done + page["tokens"], index + 1
            pages.append(page)
            empty = 0 if page["tokens"] else empty + 1
            if empty == _EMPTY_SHARDS:
                raise EngineError(
                    f"{empty} shards in a row hold no usable conversation: look at what the target "
                    "writes as a user's turn, or lower the temperatures"
                )
    return pages


def _shard(
    writer: Writer,
    folder: Path,
    stream: str,
    index: int,
    *,
    given: Sequence[Prompt],
    watch: Callable[[str], None],
) -> dict[str, Any]:
    name = f"{stream}-{index:05d}"
    page = read_page(folder / f"{name}.json")
    path = folder / f"{name}.safetensors"
    if page is None or not path.is_file() or sha256_file(path) != page["sha256"]:
        texts, dropped = writer.shard(stream, index, given)
        page = write_shard(folder, name, texts, {"stream": stream, "dropped": dropped})
        watch(name)
    return page


def _seed(*key: object) -> int:
    digest = hashlib.sha256("/".join(map(str, key)).encode()).digest()
    return int.from_bytes(digest[:7], "big")
