"""Prompts made to a length, for traces that tell how long a prompt was but not what it said.

Words: one word for each token that was asked for, drawn with equal probability from a list of short
common English words, which most tokenizers keep whole. The length in tokens is therefore close and
not exact; the run compares what was asked with what the server counted. Token ids: exactly as many
ids, drawn with equal probability from those below the vocabulary size; the text is nonsense, and
only the completions API of servers that take ids accepts it.

Where a trace says which blocks of a prompt it shares with others (Mooncake's `hash_ids`), each
block is drawn from its own hash, so shared prefixes are shared here too, block by block.

Neither kind is language: drafts agree less with a target on it than on real prompts, so speed and
acceptance on synthetic prompts say little about a service.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Final

from specdecode.errors import ConfigError
from specdecode.workload.load.request import Messages
from specdecode.workload.split import seeded_hash
from specdecode.workload.text import sha256

_LIST: Final = """
about above after again air all also always among and animal answer any apple around ask back
bank bear before begin below best better between big bird black blue boat body book both box
boy bread bring brother build but call can car care carry change child city clean clear close
cloud coat cold color come corn cost could country cover cross cut dark day deep did door down
draw dream drive dry each early earth east eat egg end even ever eye face fall family far farm
fast father feel few field fill find fire first fish five floor fly food foot for form four
free friend from front full game garden gave get girl give glass gold good grass great green
ground grow half hand hard have hear heart heavy help here high hold home horse hot hour house
idea island just keep kind king know lake land large last late laugh lead learn leave left
letter life light line list little live long look low make man many map mark may mean meet
milk mind money moon more morning most mother mountain move much music must name near never
new next night north note now ocean old once only open order other over own page paper part
pass path people place plan plant play point poor power pull push put rain read ready red
rest rice rich right river road rock room round run salt same sand say school sea second see
seed sell send set seven shape ship short show side silver sing sister six sky sleep slow
small snow some song soon south speak spring stand star start stay step still stone stop
story street strong summer sun sure table take talk tall teach tell ten than that them then
there thing think this three time today town trade train travel tree true turn two under
until use very voice wait walk wall want warm wash watch water way well west what wheel when
where which while white who why wide wild will wind window winter wish with wood word work
world write year yellow yes young
"""
WORDS: Final = tuple(_LIST.split())
SMALLEST_ID: Final = 256
"""Ids below it are left out: many vocabularies keep bytes and control tokens there."""


@dataclass(frozen=True)
class SyntheticPrompt:
    """A prompt of a given length.

    Args:
        seed: of the run.
        key: of this prompt; another key, another prompt.
        tokens: length asked for.
        blocks: hashes of the blocks it begins with; empty when they are not known.
        block_tokens: length of a block.
        vocab_size: makes token ids below it; None makes words.
    """

    seed: int
    key: str
    tokens: int
    blocks: tuple[int, ...] = field(default=(), repr=False)
    block_tokens: int = 512
    vocab_size: int | None = None

    def __post_init__(self) -> None:
        if self.tokens < 1:
            raise ConfigError(f"{self.key}: a prompt has at least 1 token, not {self.tokens}")
        if self.vocab_size is not None and self.vocab_size <= SMALLEST_ID:
            raise ConfigError(
                f"a vocabulary of {self.vocab_size} leaves no ids from {SMALLEST_ID} on; "
                "use words instead of ids"
            )

    @property
    def identity(self) -> str:
        """See `request.Prompt`: prompts with the same blocks and length are equal."""
        used = self.blocks[: -(-self.tokens // self.block_tokens)]
        covered = len(used) * self.block_tokens >= self.tokens
        return sha256(f"{self.seed}/{used}/{'' if covered else self.key}/{self.tokens}")

    def text(self) -> str:
        """Words, as the module says."""
        words: list[str] = []
        for count, draw in self._parts():
            words.extend(draw.choices(WORDS, k=count))
        return " ".join(words)

    def messages(self) -> Messages:
        """The words as a user turn; the chat template adds tokens of its own."""
        return [{"role": "user", "content": self.text()}]

    def token_ids(self) -> list[int] | None:
        """Ids, as the module says; None unless the vocabulary size was given."""
        if self.vocab_size is None:
            return None
        ids: list[int] = []
        for count, draw in self._parts():
            ids.extend(draw.choices(range(SMALLEST_ID, self.vocab_size), k=count))
        return ids

    def _parts(self) -> list[tuple[int, random.Random]]:
        """(length, generator) of each block, then of what no block covers."""
        parts: list[tuple[int, random.Random]] = []
        left = self.tokens
        for block in self.blocks:
            if left <= 0:
                break
            parts.append((min(left, self.block_tokens), self._draw("block", block)))
            left -= self.block_tokens
        if left > 0:
            parts.append((left, self._draw("rest", self.key)))
        return parts

    def _draw(self, *names: object) -> random.Random:
        return random.Random(seeded_hash("synthetic", self.seed, *names))  # noqa: S311 - no secret
