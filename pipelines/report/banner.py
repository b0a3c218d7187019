"""The top of the page: the verdict, why, and what would change it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.report.findings import reasons, remedies
from pipelines.report.section import Quoted, Tone, quote
from pipelines.report.words import Words

_TONES: dict[str, Tone] = {
    "GO": "good",
    "NO_GO": "bad",
    "INCONCLUSIVE": "unsure",
    "INVALID": "broken",
}


@dataclass(frozen=True)
class Change:
    """Something that would change the verdict: how it would, and what it is."""

    lead: str
    text: str | Quoted


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
    claim: str | Quoted
    owner: str | Quoted
    reasons: Sequence[str | Quoted]
    changes: Sequence[Change]


def banner(verdict: Mapping[str, Any], plan: Mapping[str, Any] | None, words: Words) -> Banner:
    """Banner of a verdict document. A status that is not known is shown as INVALID.

    Args:
        verdict: the verdict document.
        plan: the plan, to say findings in another language; None when it was not kept.
        words: texts of the page.
    """
    status = str(verdict.get("status"))
    why = reasons(verdict, plan, words)
    if status not in _TONES:
        why.insert(0, words("banner.unknown", status=status))
        status = "INVALID"
    return Banner(
        status,
        words(f"status.{status}"),
        words(f"status.{status}_means"),
        _TONES[status],
        quote(words, str(verdict.get("claim") or "")),
        quote(words, str(verdict.get("owner") or "")),
        why,
        _changes(verdict, status, plan, words),
    )


def _changes(
    verdict: Mapping[str, Any], status: str, plan: Mapping[str, Any] | None, words: Words
) -> list[Change]:
    found = [Change("", text) for text in remedies(verdict, plan, words)]
    of_plan = [("banner.reopen", verdict.get("reopen_when") or ())]
    if status == "GO":
        of_plan.insert(0, ("banner.overturned", verdict.get("overturned_by") or ()))
    for key, texts in of_plan:
        found += [Change(words(key), quote(words, str(text))) for text in dict.fromkeys(texts)]
    return found
