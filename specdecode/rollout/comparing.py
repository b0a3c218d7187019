"""The two replies of each pair, compared while both are still in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from specdecode.rollout.observation import ReplyWatch
from specdecode.rollout.pairs import NOTE, PairSummary, compare, is_greedy, note_of
from specdecode.rollout.recording import Recorder


class Notes(Protocol):
    """Where comparisons go: a `Spool`."""

    def note(self, of: str, **details: Any) -> None:
        """Anything worth keeping."""


class Comparing:
    """Compares pairs; never raises.

    Args:
        notes: where comparisons go.
        recorder: told when something breaks.

    Attributes:
        summary: of all pairs since the start.
    """

    def __init__(self, notes: Notes, recorder: Recorder) -> None:
        self._notes, self._recorder = notes, recorder
        self.summary = PairSummary()

    def add(self, baseline: ReplyWatch, candidate: ReplyWatch, asked: Mapping[str, Any]) -> None:
        """A pair whose replies have both ended; one that is not whole has nothing to compare.

        Args:
            baseline: its reply.
            candidate: likewise.
            asked: of either.
        """
        try:
            found = compare(baseline, candidate)
            if found is None:
                return
            self._notes.note(NOTE, **note_of(found, asked))
            self.summary.add(found, prompt_id=asked["prompt_id"], greedy=is_greedy(asked))
        except Exception as error:  # noqa: BLE001 - rows are kept without it
            self._recorder.broke("pairs", error)
