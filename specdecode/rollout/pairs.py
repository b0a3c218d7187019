"""How the two replies of a shadow's pair compare. What is kept are positions and lengths, no text.

Greedy replies of a lossless candidate are the same, but where two tokens tie within the precision
of the arithmetic: from there on they may part, and both are right. So a difference is a place to
look at, and the audit's to judge. Sampled replies are independent draws, and their texts say
nothing; their lengths and times do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from specdecode.rollout.spool_snapshot import Snapshot

if TYPE_CHECKING:
    from specdecode.rollout.observation import ReplyWatch

NOTE: Final = "pair"
"""Name of the lines of a spool that hold comparisons."""
_SHOWN: Final = 20


class Both(NamedTuple):
    """The same number of either reply; None where it is unknown."""

    baseline: Any
    candidate: Any

    @property
    def ratio(self) -> float | None:
        """Candidate / baseline; None where one is unknown or the baseline's is 0."""
        if self.baseline is None or self.candidate is None or self.baseline <= 0:
            return None
        return float(self.candidate / self.baseline)


@dataclass(frozen=True)
class Comparison:
    """Two whole replies to one request.

    Attributes:
        same: whether all output is the same; None if there was none to compare.
        first_character: place of the first that differs, from 0; None if none does or it is
            unknown.
        first_token: likewise of token ids, where both were kept.
        chars, prompt_tokens, output_tokens, finish_reason, ttft_s, e2e_s: of either.
        same_fingerprint: whether both replies name the same engine, which a candidate that is
            really another engine does not; None unless both name one.
    """

    same: bool | None
    first_character: int | None
    first_token: int | None
    chars: Both
    prompt_tokens: Both
    output_tokens: Both
    finish_reason: Both
    ttft_s: Both
    e2e_s: Both
    same_fingerprint: bool | None

    def to_json(self) -> dict[str, Any]:
        """For a note of the spool; `from_json` inverts it."""
        return asdict(self)

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        """Inverse of `to_json`.

        Raises:
            KeyError, TypeError: it is no comparison.
        """
        names = cls.__dataclass_fields__
        pairs = {name for name, each in names.items() if each.type == "Both"}
        fields: dict[str, Any] = {n: Both(*found[n]) if n in pairs else found[n] for n in names}
        return cls(**fields)


def compare(baseline: ReplyWatch, candidate: ReplyWatch) -> Comparison | None:
    """Compare two replies that have ended; None unless both are whole."""
    if baseline.error is not None or candidate.error is not None:
        return None
    hashes = Both(baseline.text_sha256, candidate.text_sha256)
    same = None if None in hashes else hashes.baseline == hashes.candidate
    marks = Both(baseline.system_fingerprint, candidate.system_fingerprint)
    ids = Both(baseline.token_ids, candidate.token_ids)

    def both(name: str) -> Both:
        return Both(getattr(baseline, name), getattr(candidate, name))

    return Comparison(
        same=same,
        first_character=first_difference(baseline.text, candidate.text) if same is False else None,
        first_token=None if None in ids else first_difference(*ids),
        chars=both("chars"),
        prompt_tokens=both("prompt_tokens"),
        output_tokens=both("output_tokens"),
        finish_reason=both("finish_reason"),
        ttft_s=both("ttft_s"),
        e2e_s=both("e2e_s"),
        same_fingerprint=None if None in marks else marks.baseline == marks.candidate,
    )


def first_difference(a: Any, b: Any) -> int | None:
    """The first place where two sequences differ; the end of the shorter one is such a place."""
    end = object()
    both = zip_longest(a, b, fillvalue=end)
    return next((place for place, (one, other) in enumerate(both) if one != other), None)


@dataclass
class _Sums:
    """Sums over the pairs of one kind of sampling."""

    pairs: int = 0
    compared: int = 0
    same: int = 0
    same_finish: int = 0
    same_fingerprint: int = 0
    other_prompt_tokens: int = 0
    logs: dict[str, list[float]] = field(default_factory=dict)  # by name, [n, sum of logarithms]

    def add(self, each: Comparison) -> None:
        self.pairs += 1
        self.compared += each.same is not None
        self.same += each.same is True
        self.same_finish += each.finish_reason.baseline == each.finish_reason.candidate
        self.same_fingerprint += each.same_fingerprint is True
        told = None not in each.prompt_tokens
        self.other_prompt_tokens += told and each.prompt_tokens[0] != each.prompt_tokens[1]
        for name in ("output_tokens", "ttft_s", "e2e_s"):
            ratio = getattr(each, name).ratio
            if ratio is not None and ratio > 0:
                total = self.logs.setdefault(name, [0, 0.0])
                total[0] += 1
                total[1] += math.log(ratio)

    def to_json(self) -> dict[str, Any]:
        ratios = {name: math.exp(total / n) for name, (n, total) in self.logs.items()}
        return {
            "pairs": self.pairs,
            "compared": self.compared,
            "same": self.same,
            "same_share": self.same / self.compared if self.compared else None,
            "same_finish_reason": self.same_finish,
            "same_fingerprint": self.same_fingerprint,
            "other_prompt_tokens": self.other_prompt_tokens,
            "ratio": {
                name: ratios.get(name) for name in ("output_tokens", "ttft_s", "e2e_s")
            },  # geometric means, candidate / baseline
        }


class PairSummary:
    """What pairs show together, greedy and sampled apart. Constant memory."""

    def __init__(self) -> None:
        self._sums = {"greedy": _Sums(), "sampled": _Sums()}
        self._differing: list[dict[str, Any]] = []

    def add(self, each: Comparison, *, prompt_id: str, greedy: bool) -> None:
        """Count a pair.

        Args:
            each: the pair.
            prompt_id: by which people find it.
            greedy: whether its replies should be the same.
        """
        self._sums["greedy" if greedy else "sampled"].add(each)
        if greedy and each.same is False:
            where = {"character": each.first_character, "token": each.first_token}
            self._differing = [*self._differing, {"prompt_id": prompt_id, **where}][-_SHOWN:]

    def to_json(self) -> dict[str, Any]:
        """For health and reports; of greedy pairs that differ the last few by name."""
        sums = {name: each.to_json() for name, each in self._sums.items()}
        return {**sums, "last_differing": list(self._differing)}


def note_of(each: Comparison, asked: Mapping[str, Any]) -> dict[str, Any]:
    """What `Spool.note(NOTE, …)` is given of a pair.

    Args:
        each: the pair.
        asked: of either row.
    """
    return {
        "prompt_id": asked["prompt_id"],
        "stage": asked["stage"],
        "manifest_sha256": asked["manifest_sha256"],
        "setting": asked["sampling"]["name"],
        "greedy": is_greedy(asked),
        **each.to_json(),
    }


def is_greedy(asked: Mapping[str, Any]) -> bool:
    """Whether a request asked for greedy decoding."""
    return bool(asked["sampling"].get("temperature", 1.0) == 0)


def read_pairs(folder: Path, *, manifest_sha256: str | None = None) -> PairSummary:
    """The summary of all pairs that a spool has notes of.

    Raises:
        EvidenceError: the spool is damaged.
    """
    found = PairSummary()
    for line in Snapshot(folder).lines("note"):
        if line.get("of") == NOTE and manifest_sha256 in (None, line["manifest_sha256"]):
            each = Comparison.from_json(line)
            found.add(each, prompt_id=line["prompt_id"], greedy=line["greedy"])
    return found
