"""Which prompts a cell sends: the same for every arm, others at every load and in every round."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from specdecode.durable import written_whole
from specdecode.workload.prompts import Prompt, load_prompts
from specdecode.workload.split import seeded_hash
from specdecode.workload.sweep.spec import SweepSpec


class Deck:
    """Deals the prompts of a sweep.

    A prompt that a server has seen before could be answered from its prefix cache. So prompts are
    dealt without repeats while they last; where a server gets more requests than there are prompts,
    every prompt gets a few characters of its own in front (`specdecode.workload.load.salt`).

    Args:
        spec: of the sweep.
        lasting: whether a server lives through all rounds, rather than through one.

    Attributes:
        salted: whether prompts get characters of their own.

    Raises:
        PromptFileError: the file is malformed.
    """

    def __init__(self, spec: SweepSpec, *, lasting: bool) -> None:
        self._spec = spec
        self._prompts = (
            []
            if spec.prompts is None
            else _different(load_prompts(spec.prompts, first_turn_only=True))
        )
        need = sum(spec.requests_at(clients) for clients in spec.concurrency)
        life = need * spec.rounds if lasting else need
        self.salted = spec.prompts is not None and life > len(self._prompts)
        self._dealt = dict(self._deal(need))

    @property
    def sha256(self) -> str:
        """Of all prompts; of nothing where they are made to a length."""
        digest = hashlib.sha256()
        for prompt in self._prompts:
            digest.update(_line(prompt))
        return digest.hexdigest()

    def of(self, folder: Path, number: int, concurrency: int) -> dict[str, Any]:
        """The fields of a cell's load that say what is sent.

        Args:
            folder: of the sweep; gets a file of the prompts.
            number: of the round, from 1.
            concurrency: clients.
        """
        seed = seeded_hash("sweep cell", self._spec.seed, number, concurrency) % 2**63
        if self._spec.prompts is None:
            return {"seed": seed}
        path = folder / "prompts" / f"round-{number}-c{concurrency}.jsonl"
        path.parent.mkdir(exist_ok=True)
        with written_whole(path) as file:
            file.writelines(map(_line, self._dealt[number, concurrency]))
        repeats = "salt" if self.salted else "refuse"
        return {"seed": seed, "prompts": path, "repeats": repeats}

    def _deal(self, need: int) -> Iterator[tuple[tuple[int, int], list[Prompt]]]:
        if not self._prompts:
            return
        spec = self._spec
        draw = random.Random(seeded_hash("sweep prompts", spec.seed))  # noqa: S311 - no secret
        left: list[Prompt] = []
        for number in range(1, spec.rounds + 1):
            if not self.salted and len(left) < need:
                left = []
            for clients in spec.concurrency:
                hand: list[Prompt] = []
                while len(hand) < min(spec.requests_at(clients), len(self._prompts)):
                    if not left:
                        left = draw.sample(self._prompts, len(self._prompts))
                    if (prompt := left.pop()) not in hand:
                        hand.append(prompt)
                yield (number, clients), hand


def _different(prompts: list[Prompt]) -> list[Prompt]:
    """One of each text."""
    return list({prompt.text: prompt for prompt in prompts}.values())


def _line(prompt: Prompt) -> bytes:
    return json.dumps(prompt.model_dump(mode="json", by_alias=True)).encode() + b"\n"
