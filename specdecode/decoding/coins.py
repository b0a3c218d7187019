"""Random numbers of one request: independent streams, keyed, never shared.

A draw is fixed by (seed, prompt, purpose, index) through a counter-based generator (Philox). So a
request's reply does not depend on its place in a batch, on its neighbours or on how many numbers
others drew; and draft noise, acceptance and resampling can never be the same number, which would
bias the output. Different prompts under one seed get independent streams, and so do the replies
that `n` asks for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray


class Purpose(IntEnum):
    """What a draw decides."""

    DRAFT = 1  # which token the drafter proposes
    ACCEPT = 2  # whether the verification rule keeps it
    RESAMPLE = 3  # the token after the kept ones
    TARGET = 4  # the target's own sample at an absolute position: plain decoding and "match"
    BELOW_DRAFT = 11  # a token that one drafter proposes to another inside a cascade
    BELOW_ACCEPT = 12  # whether the other keeps it
    BELOW_RESAMPLE = 13  # the other's own token after those it kept


class CoinStream:
    """Uniform draws in [0, 1), float64.

    Args:
        seed: of the request.
        prompt: the prompt's token ids.
        sample_index: which of the replies to this prompt and seed. Reply 0 of several draws what
            the only reply would.
        before: batches that a drafter may remember (see `drafting.base.batches_before`).
    """

    def __init__(
        self, seed: int, prompt: Sequence[int], sample_index: int = 0, before: int = 0
    ) -> None:
        message = np.asarray([seed, *prompt], dtype="<i8").tobytes()
        if sample_index:  # the marker is no multiple of 8 bytes: no prompt continues that way
            message += b"reply" + sample_index.to_bytes(8, "little")
        if before:
            message += b"after" + before.to_bytes(8, "little")
        digest = hashlib.sha256(message).digest()
        self._key = np.frombuffer(digest[:16], dtype="<u8")

    def draw(self, purpose: Purpose, index: int, count: int, part: int = 0) -> NDArray[np.float64]:
        """`count` draws for a purpose.

        Args:
            purpose: which stream.
            index: the row's step, or for TARGET the absolute position. Never draw twice for one
                (purpose, index, part): a coin that was seen must not decide again.
            count: how many.
            part: tells apart several draws for one index, such as the rounds of a cascade.
        """
        counter = np.array([0, index, purpose, part], dtype=np.uint64)
        bits = np.random.Philox(key=self._key, counter=counter)
        return np.random.Generator(bits).random(count)
