"""Which tokens carry the evidence: its logarithm, split by where the tokens came from.

The log evidence is a sum over tokens of what each one added to it, so every table below adds up to
it exactly. The split decides nothing: groups are compared after the fact, and a lossless engine has
groups with positive sums, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from specdecode.audit.places import Place
from specdecode.audit.row import AuditRow

# Beyond so many groups of one table the rest counts as one, so that memory stays bounded.
_MOST_GROUPS = 200
REST = "(others)"
# Ends of ranges of output positions: early and late, in equal ratios.
_EDGES = (1, 4, 16, 64, 256, 1024)
_RANGES = ("0", "1-3", "4-15", "16-63", "64-255", "256-1023", "1024-")
# Not part of what the law looks like.
_NO_LAW = {"max_tokens", "stop", "ignore_eos", "seed", "logprobs", "n"}


class Carriers:
    """Sums of log evidence by position, place in a step, stratum and sampling parameters."""

    def __init__(self) -> None:
        self._tables: dict[str, dict[str, list[float]]] = {
            "positions": {}, "places": {}, "strata": {}, "parameters": {},
        }  # fmt: skip

    def add(
        self,
        row: AuditRow,
        start: int,
        where: Sequence[Place],
        gains: npt.NDArray[np.float64],
    ) -> None:
        """Books the gains of consecutive positions of a row.

        Args:
            row: whose they are.
            start: first position.
            where: place of each position.
            gains: float [T].
        """
        ranges = np.searchsorted(_EDGES, np.arange(start, start + len(gains)), side="right")
        self._book("positions", (_RANGES[index] for index in ranges), gains)
        self._book("places", where, gains)
        for name in ("strata", "parameters"):
            for group in _groups(name, row):
                self._book(name, [group] * len(gains), gains)

    def to_json(self) -> dict[str, dict[str, dict[str, float | int]]]:
        """Table -> group -> {tokens, log_e_value}, groups with the largest sums first."""
        return {
            table: {
                group: {"tokens": int(count), "log_e_value": total}
                for group, (count, total) in sorted(groups.items(), key=lambda item: -item[1][1])
            }
            for table, groups in self._tables.items()
        }

    def _book(self, table: str, groups: Iterable[str], gains: npt.NDArray[np.float64]) -> None:
        sums = self._tables[table]
        for group, gain in zip(groups, gains.tolist(), strict=True):
            name = group if group in sums or len(sums) < _MOST_GROUPS else REST
            entry = sums.setdefault(name, [0, 0.0])
            entry[0] += 1
            entry[1] += gain


def _groups(table: str, row: AuditRow) -> list[str]:
    if table == "parameters":
        return [parameters_of(row)]
    return [f"{name}={value}" for name, value in row.strata.items()]


def parameters_of(row: AuditRow) -> str:
    """The sampling parameters that shape the law, those at their default left out."""
    values: Mapping[str, Any] = row.params.model_dump(exclude_defaults=True, exclude=_NO_LAW)
    told = {"temperature": row.params.temperature, **values}
    return ", ".join(f"{name}={value}" for name, value in told.items())
