"""Whether the output is still the target's own: the audit's evidence."""

from __future__ import annotations

from pipelines.report.charts.evidence import evidence_curve
from pipelines.report.inputs import Json, ReportInputs
from pipelines.report.section import Cell, Quoted, Section, Table, badge
from pipelines.report.theme import sort_arms
from pipelines.report.words import Words

_PAIRS = ("pairs", "identical", "diverged_tie", "diverged_failure", "ends_differ")


def losslessness_section(inputs: ReportInputs, words: Words) -> Section:
    """Evidence curve of every arm and the greedy comparison."""
    title = words("lossless.title")
    if inputs.audit is None:
        return Section("losslessness", title, words("lossless.no_audit"))
    audits: Json = inputs.audit["arms"]
    alpha = inputs.audit.get("alpha")
    curves = {arm: points(found.get("evidence") or ()) for arm, found in audits.items()}
    arms = sort_arms(list(audits))
    planted: Json = inputs.audit.get("planted_faults") or {}
    told = [words("lossless.planted", arm=arm, fault=planted[arm]) for arm in planted]
    return Section(
        "losslessness",
        title,
        " ".join([words("lossless.lead"), *told]),
        [evidence_curve(curves, alpha, words)],
        [
            _sampled(audits, arms, alpha, words),
            _greedy_tokens(audits, arms, words),
            _greedy_replies(audits, arms, inputs.baseline, words),
        ],
    )


def points(evidence: object) -> list[tuple[float, float]]:
    """(tokens, log e) pairs; a point without a finite value was not measured and is left out."""
    pairs = []
    for point in evidence if isinstance(evidence, list | tuple) else ():
        tokens, value = point
        if tokens is not None and value is not None:
            pairs.append((float(tokens), float(value)))
    return pairs


def _place(first: Json | None, words: Words) -> str:
    """Where evidence first sufficed."""
    if first is None:
        return words("none")
    place = {"row": first.get("row"), "position": first.get("position"), "kind": first.get("kind")}
    return words("lossless.place", **place)


def _sampled(audits: Json, arms: list[str], alpha: float | None, words: Words) -> Table:
    limit = None if not alpha else 1.0 / alpha
    rows: list[list[Cell]] = []
    for arm in arms:
        found = audits[arm]
        rows.append(
            [
                arm,
                badge(words, str(found["verdict"])),
                _figure(found.get("e_value"), words),
                words.number(limit, 0),
                words.number(found.get("tokens_read"), 0),
                words.number(found.get("min_tokens"), 0),
                _place(found.get("first_evidence"), words),
                _why(found, words),
            ]
        )
    keys = ("finding", "e_value", "limit", "read", "wanted", "first", "reasons")
    return Table(
        words("lossless.audit"),
        (words("arm"), *(words(f"lossless.{key}") for key in keys)),
        rows,
        numeric=range(2, 6),
        note=words("lossless.audit_note"),
    )


def _why(found: Json, words: Words) -> str | Quoted:
    """The audit's own sentences; another language says its finding instead, by its code."""
    said = "; ".join(str(reason) for reason in found.get("reasons") or ())
    if words.language == "en":
        return said
    explained = words.texts.get(f"lossless.means_{found['verdict']}")
    return Quoted(said, "en") if explained is None else explained


def _figure(value: object, words: Words) -> str:
    return f"{value:.3g}" if isinstance(value, int | float) else words("not_measured")


def _greedy_tokens(audits: Json, arms: list[str], words: Words) -> Table:
    rows = []
    for arm in arms:
        greedy = audits[arm].get("greedy") or {}
        counts = [words.number(greedy.get(key), 0) for key in ("exact", "ties", "failures")]
        rows.append([arm, *counts, _figure(greedy.get("tie_tolerance"), words)])
    return Table(
        words("lossless.greedy_tokens"),
        (words("arm"), *(words(f"lossless.{k}") for k in ("best", "tied", "wrong", "tolerance"))),
        rows,
        numeric=range(1, 5),
        note=words("lossless.greedy_note"),
    )


def _greedy_replies(audits: Json, arms: list[str], baseline: str, words: Words) -> Table:
    rows = []
    for arm in arms:
        if arm != baseline:
            pairs = (audits[arm].get("greedy") or {}).get("against_baseline") or {}
            rows.append([arm, *(words.number(pairs.get(key), 0) for key in _PAIRS)])
    return Table(
        words("lossless.greedy_replies", baseline=baseline),
        (words("arm"), *(words(f"lossless.{key}") for key in _PAIRS)),
        rows,
        numeric=range(1, 6),
    )
