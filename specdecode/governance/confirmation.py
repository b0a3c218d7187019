"""Run a plan's confirmation: hand out each prompt once, and keep every row it gave.

A prompt that was handed out, and whose rows were not all safe when the run died, is not decoded
again. Tokens would be the same, since its coins are keyed by seed and prompt, but times would not:
whoever kills a run that looks slow could draw again until it looks fast. So its rows that are safe
stay, the others become rows that say they were lost, and these count as failed requests of their
arm. A crash thus costs a prompt and can never improve a result.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from specdecode.errors import ConfigError, EvidenceError, TamperedError
from specdecode.governance.opening import Handed, Opening
from specdecode.governance.vault import ID_FIELD
from specdecode.measurement.digest import rows_sha256
from specdecode.measurement.records import Record
from specdecode.measurement.spool import RowSpool

CRASHED = "lost: the run died after the prompt was handed out and before this row was safe"
SKIPPED = "lost: the run gave no such row"

Run = Callable[[Sequence[Handed]], Iterable[Record]]
"""Measures prompts. A row is stored when it is given, so it is given as soon as it is there."""

Lost = Callable[[Handed, str], Iterable[Record]]
"""All rows a prompt should have, as failed ones with that error."""


@dataclass(frozen=True)
class Confirmed:
    """How a confirmation ended: prompts, how many came from an earlier run, how many lack rows."""

    prompts: int
    resumed: int
    lost: int
    rows_sha256: str


def confirm(
    opening: Opening, spool: RowSpool, run: Run, lost: Lost, *, batch: int = 1
) -> Confirmed:
    """Measure what is left of an opened confirmation set, and put its end on record.

    Args:
        opening: from `open_once`.
        spool: where rows go, and those of an earlier run are.
        run: measures prompts.
        lost: names the rows that a prompt should have.
        batch: prompts handed out together. A crash loses all of them, so 1 unless prompts are
            decoded together.

    Raises:
        TamperedError: rows that are on record are gone or changed, rows are there of prompts that
            were never handed out, or something sealed drifted during the run.
        EvidenceError: `run` gave a row of another prompt than it was handed.
        ConfigError: `batch` is below 1.
        OSError: a row cannot be stored; rows so far are safe, the prompt in flight is lost.
    """
    if batch < 1:
        raise ConfigError(f"confirm: a batch holds at least 1 prompt, not {batch}")
    kept = _Kept(spool, lost)
    resumed = len(opening.history.settled)
    kept.refuse_tampered(opening)
    for handed in opening.interrupted:
        kept.settle(opening, handed, CRASHED)
    prompts = opening.prompts()
    while block := list(islice(prompts, batch)):
        names = {handed.prompt[ID_FIELD] for handed in block}
        for record in run(block):
            if record.prompt_id not in names:
                raise EvidenceError(f"{record.request_id}: a row of a prompt that was not handed")
            kept.add(record)
        for handed in block:
            kept.settle(opening, handed, SKIPPED)
    digest = rows_sha256(record for rows in kept.by_prompt.values() for record in rows)
    opening.complete(digest)
    return Confirmed(opening.count, resumed, len(opening.history.lost), digest)


class _Kept:
    """The rows in the spool by prompt."""

    def __init__(self, spool: RowSpool, lost: Lost) -> None:
        self._spool, self._lost = spool, lost
        self.by_prompt: defaultdict[str, list[Record]] = defaultdict(list)
        for record in spool.records():
            self.by_prompt[record.prompt_id].append(record)

    def add(self, record: Record) -> None:
        self._spool.append(record)
        self.by_prompt[record.prompt_id].append(record)

    def settle(self, opening: Opening, handed: Handed, why: str) -> None:
        """Fill up with lost rows what is not there, then put the prompt's rows on record."""
        done = self._spool.done
        missing = [row for row in self._lost(handed, why) if row.key not in done]
        for record in missing:
            self.add(record)
        opening.settle(handed.index, self._digest(handed), lost=self._lacks(handed))

    def refuse_tampered(self, opening: Opening) -> None:
        known = {opening.handed(i).prompt[ID_FIELD] for i in opening.history.handed_out}
        if strangers := sorted(set(self.by_prompt) - known):
            raise TamperedError(
                f"{self._spool.path}: rows of prompts that the ledger never handed out "
                f"({', '.join(strangers[:3])}): its last lines were cut off, restore them"
            )
        for index, digest in opening.history.settled.items():
            if self._digest(opening.handed(index)) != digest:
                raise TamperedError(
                    f"{self._spool.path}: the rows of confirmation prompt {index} are not those "
                    "the ledger has; restore the file. They can't be measured again"
                )

    def _digest(self, handed: Handed) -> str:
        return rows_sha256(self.by_prompt[handed.prompt[ID_FIELD]])

    def _lacks(self, handed: Handed) -> bool:
        return any(
            record.error in (CRASHED, SKIPPED) for record in self.by_prompt[handed.prompt[ID_FIELD]]
        )
