"""The audit from rows to report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from specdecode.audit.draft_noise import measure_draft_noise
from specdecode.audit.draft_source import draft_source
from specdecode.audit.drift import measure_drift
from specdecode.audit.judge import Judgement, judge
from specdecode.audit.model_scorer import ModelScorer
from specdecode.audit.report import AuditReport, report_of
from specdecode.audit.row import AuditRow
from specdecode.audit.rows import RowReader, RowSet, read_rows
from specdecode.audit.scorer import Scorer
from specdecode.audit.tolerance import measure_tolerance
from specdecode.errors import ConfigError
from specdecode.models import LoadedModel, load_model
from specdecode.models.network import CausalNetwork

Rows = Iterable[Mapping[str, Any]]
Draft = str | Path | LoadedModel | CausalNetwork | None


def audit(
    rows: Rows,
    target: str | Path | LoadedModel,
    draft: Draft = None,
    alpha: float = 0.01,
    baseline_rows: Rows | None = None,
) -> AuditReport:
    """Judges whether recorded outputs follow the target's own distribution.

    Greedy rows (temperature 0) are compared with the target's best token, up to the measured
    numerical tolerance. Sampled rows feed an e-process that may be read at any time. One output
    per prompt is enough, and the outputs may come from any engine.

    Args:
        rows: mappings with prompt_token_ids, output_token_ids and sampling (mapping or JSON text);
            optional prompt_id, order_index, finish_reason, error, drafted. When order_index is
            present, rows are read in its order.
        target: the reference, or where to load it from.
        draft: the draft that was used, if known: a drafter spec such as "self-int4", a model, or
            its network. Without it, outputs that lean towards the draft (the usual fault of a
            verifier) go unseen, so sampled rows that say they were `drafted` stay undecided.
        alpha: probability of calling a lossless engine biased.
        baseline_rows: plain decoding of the same prompts as control, in the same form.

    Raises:
        DataValidationError: a row is malformed; names it.
        NumericalError: the reference gives NaN or infinite logits.
        ConfigError: alpha is outside (0, 1).
    """
    arms = {"rows": rows} if baseline_rows is None else {"rows": rows, "control": baseline_rows}
    control = None if baseline_rows is None else "control"
    return audit_arms(arms, target, draft, alpha, baseline_arm=control)["rows"]


def audit_arms(
    arms: Mapping[str, Rows],
    target: str | Path | LoadedModel,
    draft: Draft = None,
    alpha: float = 0.01,
    *,
    baseline_arm: str | None = "plain",
) -> dict[str, AuditReport]:
    """Audits several arms with one reference: every arm once, the baseline as control of the rest.

    Args:
        arms: rows by arm.
        target: see `audit`.
        draft: see `audit`.
        alpha: level of each arm's audit.
        baseline_arm: the arm of plain decoding; None or an absent arm means no control.
    """
    return audit_with(_scorer(target, draft), arms, alpha, baseline_arm=baseline_arm)


def audit_with(
    scorer: Scorer, arms: Mapping[str, Rows], alpha: float, *, baseline_arm: str | None
) -> dict[str, AuditReport]:
    """The same over any source of logits."""
    _check(alpha)
    row_sets = {arm: read_rows(rows, scorer) for arm, rows in arms.items()}
    return _judged(scorer, row_sets, alpha, baseline_arm)


def audit_records(
    records: Iterable[Mapping[str, Any]],
    arm_of: Callable[[Mapping[str, Any]], str],
    target: str | Path | LoadedModel,
    draft: Draft = None,
    alpha: float = 0.01,
    *,
    baseline_arm: str | None = "plain",
) -> dict[str, AuditReport]:
    """`audit_arms` over a stream of records of all arms, in memory that does not grow with it.

    Args:
        records: read once; see `audit` for their fields.
        arm_of: the arm a record belongs to.
        target: see `audit`.
        draft: see `audit`.
        alpha: level of each arm's audit.
        baseline_arm: see `audit_arms`.
    """
    _check(alpha)
    scorer = _scorer(target, draft)
    readers: dict[str, RowReader] = {}
    for record in records:
        arm = arm_of(record)
        if arm not in readers:
            readers[arm] = RowReader(scorer)
        readers[arm].add(record)
    row_sets = {arm: reader.finish() for arm, reader in readers.items()}
    return _judged(scorer, row_sets, alpha, baseline_arm)


class _Everything(Iterable[AuditRow]):
    """The rows of all arms; may be gone through more than once."""

    def __init__(self, row_sets: Iterable[RowSet]) -> None:
        self._stores = [rows.rows for rows in row_sets]

    def __iter__(self) -> Iterator[AuditRow]:
        return chain.from_iterable(self._stores)


def _check(alpha: float) -> None:
    if not 0 < alpha < 1:
        raise ConfigError(f"alpha must lie inside (0, 1), not {alpha}")


def _judged(
    scorer: Scorer, row_sets: Mapping[str, RowSet], alpha: float, baseline_arm: str | None
) -> dict[str, AuditReport]:
    everything = _Everything(row_sets.values())
    tolerance, drift = measure_tolerance(scorer, everything), measure_drift(scorer, everything)
    noise = measure_draft_noise(scorer, everything)
    judged: dict[str, Judgement] = {
        arm: judge(scorer, rows, tolerance, drift, alpha, draft_noise=noise)
        for arm, rows in row_sets.items()
    }
    reports = {}
    for arm, judgement in judged.items():
        control = None if baseline_arm in (None, arm) else judged.get(str(baseline_arm))
        reports[arm] = report_of(judgement, alpha, control)
    return reports


def _scorer(target: str | Path | LoadedModel, draft: Draft) -> ModelScorer:
    loaded = load_model(target) if isinstance(target, str | Path) else target
    spec = str(draft) if isinstance(draft, Path) else draft
    return ModelScorer(loaded, draft_source(spec, loaded))
