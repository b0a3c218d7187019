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

import numpy as np
import torch
from torch import Tensor

from specdecode.distil.lanes import Script, write_conversations
from specdecode.distil.settings import SynthesisSettings
from specdecode.distil.template import Turns, encoded, turns_of
from specdecode.distil.texts import (
    GIVEN_TURN,
    REPLY,
    WRITTEN_TURN,
    Conversation,
    read_page,
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
        target: what writes.
        settings: what it writes.
        withheld: texts that meet these are dropped, and counted.
    """

    target: LoadedModel
    settings: SynthesisSettings
    withheld: Withheld

    def shard(
        self,
        stream: str,
        index: int,
        given: Sequence[Prompt] = (),
        is_enough: Enough = lambda: False,
    ) -> tuple[list[Conversation], int]:
        """The conversations of a shard, and how many were dropped.

        Args:
            stream: which stream of random numbers.
            index: of the shard in it.
            given: user turns from a file; without them the target writes its own.
            is_enough: ends the shard early.
        """
        target, settings = self.target, self.settings
        heads: list[tuple[Turns, tuple[int, ...] | None]]
        if given:
            heads = [(turns_of(target, p.system), encoded(target, p.turns[0])) for p in given]
        else:
            heads = [(turns_of(target), None)] * self._size(stream, index)
        scripts = [
            self._script(turns, user, row, _seed(settings.seed, stream, index, row))
            for row, (turns, user) in enumerate(heads)
        ]
        possible = [script for script in scripts if script.reply_tokens > 0]
        texts = write_conversations(
            target.network,
            possible,
            target.eos_token_ids,
            lanes=settings.lanes,
            kept=settings.kept,
            is_enough=is_enough,
        )
        made = [text for text in texts if text is not None and self._may_stay(text)]
        return made, len(heads) - len(possible) + len(texts) - len(made)

    def _size(self, stream: str, index: int) -> int:
        settings = self.settings
        if stream == HELD_OUT:
            return min(settings.shard, settings.held_out - index * settings.shard)
        # No more than could be wanted if every reply were as long as it may be.
        return min(settings.shard, -(-settings.tokens // settings.reply_tokens))

    def _script(self, turns: Turns, user: tuple[int, ...] | None, row: int, key: int) -> Script:
        """No reply where there is no room for one, or nothing to reply to."""
        settings = self.settings
        turn = settings.user_tokens if user is None else len(user)
        room = self.target.max_context - len(turns.before) - turn - len(turns.between)
        reply = min(settings.reply_tokens, room) if turn else 0
        draws = np.random.Generator(np.random.Philox(key=key))
        return Script(
            before=turns.before,
            user=user,
            between=turns.between,
            user_tokens=settings.user_tokens,
            reply_tokens=reply,
            temperature=settings.temperatures[row % len(settings.temperatures)],
            coins=draws.random((settings.user_tokens + max(0, reply), 2)),
        )

    def _may_stay(self, text: Conversation) -> bool:
        turn, said = (
            self.target.tokenizer.decode(text.part(*kinds), skip_special_tokens=True)
            for kinds in ((WRITTEN_TURN, GIVEN_TURN), (REPLY,))
        )
        return not self.withheld.meets(turn=turn, reply=said)


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
        is_enough: ends the writing of texts for training; some are written in any case.
        watch: called after each shard with its name.

    Raises:
        EngineError: the target writes nothing that may be used.
    """
    settings = writer.settings

    def shard(
        stream: str, index: int, given: Sequence[Prompt] = (), limit: Enough = lambda: False
    ) -> dict[str, Any]:
        return _shard(writer, folder, stream, index, given=given, is_enough=limit, watch=watch)

    pages = [shard(HELD_OUT, i) for i in range(-(-settings.held_out // settings.shard))]
    for index in range(-(-len(prompts) // settings.shard)):
        piece = prompts[index * settings.shard : (index + 1) * settings.shard]
        pages.append(shard(GIVEN, index, piece))
    done = index = empty = 0
    with progress("tokens written", settings.tokens, 0) as advance:
        while done < settings.tokens and not (index and is_enough()):
            page = shard(TRAIN, index, limit=is_enough)
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
    is_enough: Enough,
    watch: Callable[[str], None],
) -> dict[str, Any]:
    name = f"{stream}-{index:05d}"
    page = read_page(folder / f"{name}.json")
    path = folder / f"{name}.safetensors"
    if page is None or not path.is_file() or sha256_file(path) != page["sha256"]:
        texts, dropped = writer.shard(stream, index, given, is_enough)
        page = write_shard(folder, name, texts, {"stream": stream, "dropped": dropped})
        watch(name)
    return page


def _seed(*key: object) -> int:
    digest = hashlib.sha256("/".join(map(str, key)).encode()).digest()
    return int.from_bytes(digest[:7], "big")
