"""The top of the page: the verdict, why, and what would change it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.report.section import Tone

_MEANING: dict[str, tuple[str, str, Tone]] = {
    "GO": (
        "GO",
        "Every primary rule was shown to hold and no guardrail raised an alarm. The change may "
        "move to the next stage.",
        "good",
    ),
    "NO_GO": (
        "NO GO",
        "At least one rule of the plan was shown to be violated. Keep the present decoding.",
        "bad",
    ),
    "INCONCLUSIVE": (
        "INCONCLUSIVE",
        "The data do not decide every rule of the plan. Nothing may be released on them.",
        "unsure",
    ),
    "INVALID": (
        "INVALID",
        "The evidence cannot be used: something is missing, failed or was changed.",
        "broken",
    ),
}


@dataclass(frozen=True)
class Banner:
    """What the release manager reads first.

    Attributes:
        status: status as in the verdict file.
        label: status in words.
        meaning: what it means for the release, one sentence.
        tone: colour class.
        claim: what the plan set out to show; empty when not stated.
        owner: who owns the decision; empty when not stated.
        reasons: why, most important first.
        changes: what would change the verdict.
    """

    status: str
    label: str
    meaning: str
    tone: Tone
    claim: str
    owner: str
    reasons: Sequence[str]
    changes: Sequence[str]


def banner(verdict: Mapping[str, Any]) -> Banner:
    """Banner of a verdict document. A status that is not known is shown as INVALID."""
    status = str(verdict.get("status"))
    reasons = [str(reason) for reason in verdict.get("reasons") or ()]
    if status not in _MEANING:
        reasons.insert(0, f"The verdict file has the unknown status “{status}”.")
        status = "INVALID"
    label, meaning, tone = _MEANING[status]
    return Banner(
        status,
        label,
        meaning,
        tone,
        str(verdict.get("claim") or ""),
        str(verdict.get("owner") or ""),
        reasons,
        _changes(verdict, status),
    )


def _changes(verdict: Mapping[str, Any], status: str) -> list[str]:
    found = [str(text) for text in verdict.get("to_change") or ()]
    if status == "GO":
        found += [f"It is overturned by: {text}" for text in verdict.get("overturned_by") or ()]
    found += [f"Ask again when: {text}" for text in verdict.get("reopen_when") or ()]
    return list(dict.fromkeys(found))
