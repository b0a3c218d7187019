"""Half development, half reserve, by seeded hash within strata.

The reserve is what development runs do not decode: for a replication on other prompts. It stands
in plain text beside the development half, so it confirms nothing; what confirms is locked in a
vault (`specdecode.governance.vault`).

Near-duplicates move as one, so that what was tuned on one half says nothing about the other.
The result depends on the prompts and the seed only, not on file or line order. Adding prompts may
move others.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence

from specdecode.errors import ConfigError
from specdecode.workload.prompts import Prompt
from specdecode.workload.similarity import clusters

DEVELOPMENT, RESERVE = "development", "reserve"
SPLITS = (DEVELOPMENT, RESERVE)


def seeded_hash(*parts: object) -> int:
    """256-bit integer from SHA-256 over the parts, length-prefixed so that none run together."""
    digest = hashlib.sha256()
    for part in parts:
        raw = str(part).encode("utf-8")
        digest.update(len(raw).to_bytes(8, "big") + raw)
    return int.from_bytes(digest.digest(), "big")


def assign_splits(
    prompts: Sequence[Prompt],
    *,
    seed: int,
    jaccard: float = 0.7,
    overlap: float = 0.5,
) -> dict[str, str]:
    """Give each prompt its half.

    Clusters of near-duplicates are placed one by one, large ones first, then in the order of their
    seeded hash; each goes where it leaves its strata (category x language x difficulty) most even,
    then their categories, languages and difficulties, then the whole; the hash decides ties. In a
    stratum without near-duplicates the halves differ by at most one prompt.

    Args:
        prompts: the whole set, unique ids.
        seed: chooses one of the many even splits.
        jaccard: see `similarity.clusters`.
        overlap: see `similarity.clusters`.

    Returns:
        Prompt id to "development" or "reserve".

    Raises:
        ConfigError: when ids are not unique or a threshold lies outside (0, 1].
    """
    for name, value in (("jaccard", jaccard), ("overlap", overlap)):
        if not 0 < value <= 1:
            raise ConfigError(f"split: {name} must lie in (0, 1], found {value}")
    by_id = {p.prompt_id: p for p in prompts}
    if len(by_id) < len(prompts):
        raise ConfigError("split: prompt ids are not unique")
    groups: defaultdict[str, list[Prompt]] = defaultdict(list)
    for name, cluster in clusters(
        {p.prompt_id: p.text for p in prompts}, jaccard=jaccard, overlap=overlap
    ).items():
        groups[cluster].append(by_id[name])

    lead: defaultdict[tuple[str, ...], int] = defaultdict(int)  # development minus reserve
    assigned: dict[str, str] = {}
    order = sorted(groups, key=lambda c: (-len(groups[c]), seeded_hash(seed, "order", c)))
    for cluster in order:
        members = groups[cluster]
        plus, minus = _unevenness(lead, members, +1), _unevenness(lead, members, -1)
        heads = seeded_hash(seed, "side", cluster) % 2 == 0
        development = heads if plus == minus else plus < minus
        for prompt in members:
            assigned[prompt.prompt_id] = DEVELOPMENT if development else RESERVE
            for level in _levels(prompt):
                for cell in level:
                    lead[cell] += 1 if development else -1
    return assigned


def _levels(prompt: Prompt) -> Iterable[list[tuple[str, ...]]]:
    """Cells a prompt counts in: its stratum, then its margins, then the whole."""
    yield [("stratum", prompt.category, prompt.language, prompt.difficulty)]
    yield [
        ("category", prompt.category),
        ("language", prompt.language),
        ("difficulty", prompt.difficulty),
    ]
    yield [("all",)]


def _unevenness(
    lead: dict[tuple[str, ...], int], members: Sequence[Prompt], side: int
) -> tuple[int, ...]:
    """Squared leads after placing the members on a side, per level, the most important first."""
    moved: list[defaultdict[tuple[str, ...], int]] = [defaultdict(int) for _ in range(3)]
    for prompt in members:
        for level, cells in zip(moved, _levels(prompt), strict=True):
            for cell in cells:
                level[cell] += side
    return tuple(sum((lead[cell] + shift) ** 2 for cell, shift in level.items()) for level in moved)
