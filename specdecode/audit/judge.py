"""One pass over the rows of an arm: logits in, evidence and tallies out, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from specdecode.audit.carriers import Carriers
from specdecode.audit.directions import centred_bets, directions, recent_tokens
from specdecode.audit.draft_noise import DraftNoise
from specdecode.audit.drift import Drift
from specdecode.audit.edges import border_tie
from specdecode.audit.eprocess import EProcess
from specdecode.audit.greedy import Deviation, GreedyTally, judge_greedy
from specdecode.audit.honesty import Honesty
from specdecode.audit.laws import row_law
from specdecode.audit.places import gated, gated_names, places
from specdecode.audit.row import AuditRow
from specdecode.audit.rows import RowSet
from specdecode.audit.scorer import Pair, Scorer, check_finite
from specdecode.audit.tolerance import Tolerance
from specdecode.errors import ModelMismatchError

# Positions whose full distributions are held at a time.
_CHUNK = 64
# Rows that are scored together; longer than a batch, so that batches are full.
_ROWS = 128
_LISTED = 50


@dataclass(frozen=True)
class Evidence:
    """The token at which the evidence first sufficed.

    Attributes:
        kind: "e-value", or "impossible token" for one of probability 0 under the target.
        row: label of the row.
        prompt_id: of the row, None when not recorded.
        position: output position, from 0.
        token: the emitted token id.
        tokens_read: sampled tokens read up to and including it.
    """

    kind: Literal["e-value", "impossible token"]
    row: str
    prompt_id: str | None
    position: int
    token: int
    tokens_read: int


@dataclass
class SampledTally:
    """Counts over the sampled rows of one arm.

    Attributes:
        border_ties: tokens outside the reference's truncated support by less than the tolerance.
        impossible: tokens of probability 0 beyond any tie; one is a finding.
    """

    rows: int = 0
    border_ties: int = 0
    impossible: int = 0
    listed: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Judgement:
    """Everything learnt about one arm."""

    rows: RowSet
    process: EProcess
    sampled: SampledTally
    greedy: GreedyTally
    tolerance: Tolerance
    drift: Drift
    has_draft: bool
    carriers: Carriers
    honesty: Honesty
    first_evidence: Evidence | None = None


def judge(
    scorer: Scorer,
    rows: RowSet,
    tolerance: Tolerance,
    drift: Drift,
    alpha: float,
    *,
    draft_noise: DraftNoise | None = None,
) -> Judgement:
    """Reads all rows once, in order.

    Args:
        scorer: the reference.
        rows: of one arm.
        tolerance: how far greedy choices and borders may move by noise.
        drift: what bets may earn by noise.
        alpha: level.
        draft_noise: of the draft's own laws; without it traces tell about coins only.

    Raises:
        NumericalError: the target or draft gives NaN or infinite logits; names the row.
    """
    names = list(directions(with_draft=scorer.has_draft, with_recent=True))
    names += gated_names(names) if rows.stepped else []
    result = Judgement(
        rows=rows,
        process=EProcess(names, alpha, drift.allowances(names)),
        sampled=SampledTally(),
        greedy=GreedyTally(),
        tolerance=tolerance,
        drift=drift,
        has_draft=scorer.has_draft,
        carriers=Carriers(),
        honesty=Honesty(alpha, draft_noise),
    )
    some: list[AuditRow] = []
    for row in rows.rows:
        some.append(row)
        if len(some) == _ROWS:
            _judge_rows(result, scorer, some)
            some = []
    if some:
        _judge_rows(result, scorer, some)
    return result


def _judge_rows(result: Judgement, scorer: Scorer, judged: list[AuditRow]) -> None:
    pairs: list[Pair] = [(row.prompt, row.output) for row in judged]
    sampled_pairs = [(r.prompt, r.output) for r in judged if not r.params.is_greedy]
    drafts = scorer.draft(sampled_pairs) if scorer.has_draft else None
    for index, logits in scorer.target(pairs):
        row = judged[index]
        check_finite(logits, row.label, "target")
        if row.params.is_greedy:
            result.greedy.add(row, _greedy_row(row, logits, result.tolerance.gap))
            continue
        draft_logits = None if drafts is None else _draft_row(row, logits, drafts)
        _sampled_row(result, row, logits, draft_logits)
        if row.steps:
            _draft_honesty(result, row, logits, draft_logits)


def _chunks(row: AuditRow) -> Iterator[tuple[int, int]]:
    for start in range(0, len(row.output), _CHUNK):
        yield start, min(start + _CHUNK, len(row.output))


def _greedy_row(row: AuditRow, logits: Tensor, tolerance: float) -> list[Deviation]:
    return [
        deviation
        for start, stop in _chunks(row)
        for deviation in judge_greedy(logits[start:stop], row, start, tolerance)
    ]


def _draft_row(row: AuditRow, logits: Tensor, drafts: Iterator[tuple[int, Tensor]]) -> Tensor:
    _, draft_logits = next(drafts)
    if draft_logits.shape != logits.shape:
        raise ModelMismatchError(
            f"{row.label}: draft logits have shape {tuple(draft_logits.shape)}, the target's "
            f"{tuple(logits.shape)}; the two models must share one vocabulary"
        )
    check_finite(draft_logits, row.label, "draft")
    return draft_logits.to(logits.device)


def _sampled_row(
    result: Judgement, row: AuditRow, logits: Tensor, draft_logits: Tensor | None
) -> None:
    chosen = directions(with_draft=result.has_draft, with_recent=True)
    where = places(row.steps, len(row.output), row.rule)
    result.sampled.rows += 1
    for start, stop in _chunks(row):
        p = row_law(logits[start:stop], row, start)
        q = None
        if draft_logits is not None:
            # Where the draft proposes nothing its law is 0 / 0; no mass means no bet.
            q = row_law(draft_logits[start:stop], row, start).nan_to_num(nan=0.0)
        tokens = torch.tensor(row.output[start:stop], device=p.device)
        recent = recent_tokens(row.prompt, row.output, start, stop)
        bets = centred_bets(p, tokens, q, chosen, recent).cpu().numpy()
        made = None
        if result.rows.stepped:
            bets, made = gated(bets, list(chosen), where[start:stop])
        read_before = result.process.tokens_read
        crossing = result.process.update(bets, made)
        result.carriers.add(row, start, where[start:stop], result.process.gains)
        if crossing is not None:
            _note(result, "e-value", row, start + crossing, read_before + crossing + 1)
        outside = p.gather(-1, tokens.unsqueeze(-1)).squeeze(-1) <= 0
        for offset in outside.nonzero().flatten().tolist():
            position = start + offset
            token = row.output[position]
            if border_tie(logits[position], row, position, result.tolerance.logit):
                result.sampled.border_ties += 1
                continue
            result.sampled.impossible += 1
            if len(result.sampled.listed) < _LISTED:
                result.sampled.listed.append(
                    {"row": row.label, "position": position, "token": token}
                )
            _note(result, "impossible token", row, position, read_before + offset + 1)


def _draft_honesty(
    result: Judgement, row: AuditRow, logits: Tensor, draft_logits: Tensor | None
) -> None:
    """Rows are read again, whole: traces are few and their steps cross the chunks' borders."""
    q = None
    if draft_logits is not None:
        q = row_law(draft_logits, row, 0).nan_to_num(nan=0.0)
    result.honesty.add(row, draft_logits, q, row_law(logits, row, 0))


def _note(
    result: Judgement,
    kind: Literal["e-value", "impossible token"],
    row: AuditRow,
    position: int,
    tokens_read: int,
) -> None:
    earlier = result.first_evidence
    if earlier is None or tokens_read < earlier.tokens_read:
        result.first_evidence = Evidence(
            kind, row.label, row.prompt_id, position, row.output[position], tokens_read
        )
