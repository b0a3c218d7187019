"""Arms are compared on the same prompts: who is paired with whom, and who is left over."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from specdecode.measurement.records import Record

PairKey = tuple[str, str]


@dataclass(frozen=True)
class Pairing:
    """Requests of two arms matched by prompt and sampling setting.

    Args:
        pairs: (baseline, arm), both successful, ordered by key.
        unpaired: (prompt_id, sampling_name) with a row in at least one arm but no pair, because
            the other arm's row is missing or either request failed.
    """

    pairs: tuple[tuple[Record, Record], ...]
    unpaired: tuple[PairKey, ...]

    @property
    def clusters(self) -> list[str]:
        """Prompt of each pair. Repeats and sampling settings of one prompt are one cluster."""
        return [base.prompt_id for base, _ in self.pairs]


def pair(records: Iterable[Record], arm: str, baseline: str) -> Pairing:
    """Match two arms. Rows must be unique by (prompt, arm, sampling)."""
    sides: dict[str, dict[PairKey, Record]] = {baseline: {}, arm: {}}
    for record in records:
        if record.arm in sides:
            sides[record.arm][record.prompt_id, record.sampling_name] = record
    keys = sorted(sides[baseline].keys() | sides[arm].keys())
    pairs, unpaired = [], []
    for key in keys:
        base, candidate = sides[baseline].get(key), sides[arm].get(key)
        if base is None or candidate is None or base.error or candidate.error:
            unpaired.append(key)
        else:
            pairs.append((base, candidate))
    return Pairing(tuple(pairs), tuple(unpaired))
