"""Draft honesty: were draft tokens drawn from the declared law, and coins from nothing at all?

A verification rule is lossless for the law that the draft tokens were drawn from. With traces,
three claims can be tested:

    draws      each draft token follows the draft's law q at its prefix: an e-process with q in
               the target's place, looking towards the target, sharper, flatter, the tail and the
               order
    coins      each acceptance coin is uniform given everything before it and the draft token that
               it decides: an e-process that looks for a mean, for the draft token's place under
               the inverse CDF, for its probability, and for the coin before
    declared   the recorded probability of a draft token is the one q gives it

Which draft tokens may be read: what is read must be settled before the token is drawn. The first of
each step always is. Under token verification and sample-and-match the following ones are, as long
as all before were accepted; block verification decides by later tokens as well, so there only the
first one is read. What was accepted lies on the emitted path, where q is known already.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from specdecode.audit.directions import centred_bets, directions
from specdecode.audit.draft_noise import DraftNoise
from specdecode.audit.edges import border_tie
from specdecode.audit.eprocess import EProcess
from specdecode.audit.laws import amplification
from specdecode.audit.places import Step
from specdecode.audit.row import AuditRow
from specdecode.audit.tolerance import Tolerance

Honest = Literal["honest", "dishonest", "undecided"]

# Rules that keep or drop a draft token without a look at later ones.
_TOKEN_BY_TOKEN = {"token", "match"}
_COINS = ("mean", "draft order", "draft interval", "probability", "previous coin")
# A filter's border may fall elsewhere in another pass and rescale a whole row; seldom.
_BORDER_SHARE = 0.05
_ROUNDING = 1e-3


@dataclass(frozen=True)
class _Drawn:
    """A draft token that may be read: step, index in it, and its output position."""

    step: Step
    index: int
    position: int


class Honesty:
    """What the traces of one arm tell about its draft; greedy rows tell nothing.

    Args:
        alpha: probability of calling an honest draft dishonest; draws and coins share it.
        noise: of the draft's laws; None where they are not known, and only the coins are read.
    """

    def __init__(self, alpha: float, noise: DraftNoise | None) -> None:
        self._chosen = directions(with_draft=True)
        names = ["target" if name == "draft" else name for name in self._chosen]
        allowances = None if noise is None else noise.drift.allowances(list(self._chosen))
        self._draws = EProcess(names, alpha / 2, allowances)
        self._coins = EProcess(_COINS, alpha / 2)
        self._noise = noise
        self._rows = self._impossible = 0
        self._compared = self._apart = 0
        self._largest = 0.0

    def add(self, row: AuditRow, logits: Tensor | None, q: Tensor | None, p: Tensor) -> None:
        """Reads a sampled row with steps.

        Args:
            row: whose output may have been given an end token that no step emitted.
            logits: float [T, V], raw draft logits of its output; None without the draft.
            q: float [T, V], the draft's laws; None without the draft.
            p: float [T, V], the target's laws.
        """
        self._rows += 1
        places: dict[tuple[int, int], tuple[float, float]] = {}
        if q is not None and logits is not None and self._noise is not None:
            drawn = [d for d in _readable(row) if bool((q[d.position] > 0).any())]
            if drawn:
                self._read_draws(row, drawn, logits, q, p, tolerance=self._noise.tolerance)
                places = {
                    (d.step.start, d.index): _interval(q[d.position], d.step.drafted[d.index])
                    for d in drawn
                }
        self._read_coins(row, places)

    def _read_draws(
        self,
        row: AuditRow,
        drawn: list[_Drawn],
        logits: Tensor,
        q: Tensor,
        p: Tensor,
        *,
        tolerance: Tolerance,
    ) -> None:
        at = torch.tensor([d.position for d in drawn], device=q.device)
        tokens = torch.tensor([d.step.drafted[d.index] for d in drawn], device=q.device)
        bets = centred_bets(q[at], tokens, p[at], self._chosen).cpu().numpy()
        self._draws.update(np.asarray(bets, dtype=np.float64))
        ours = q[at].gather(-1, tokens.unsqueeze(-1)).squeeze(-1).double().tolist()
        # A logit that moves by the tolerance changes a probability by at most this factor.
        stretch = tolerance.gap * amplification(row.params) / row.params.temperature
        for d, probability, token in zip(drawn, ours, tokens.tolist(), strict=True):
            if probability <= 0:
                as_drafted = replace(row, output=[*row.output[: d.position], token])
                at_d = logits[d.position]
                self._impossible += not border_tie(at_d, as_drafted, d.position, tolerance.logit)
            if d.step.draft_probs:
                declared = d.step.draft_probs[d.index]
                difference = abs(declared - probability)
                allowed = float(np.expm1(min(stretch, 5.0))) * max(declared, probability)
                self._compared += 1
                self._apart += difference > allowed + _ROUNDING
                self._largest = max(self._largest, difference)

    def _read_coins(
        self, row: AuditRow, places: dict[tuple[int, int], tuple[float, float]]
    ) -> None:
        bets: list[list[float]] = []
        made: list[list[bool]] = []
        before: float | None = None
        for step in row.steps:
            for index, coin in enumerate(_once(row, step)):
                place = places.get((step.start, index))
                low, width = place if place is not None else (0.0, 0.0)
                told = step.draft_probs[index] if step.draft_probs else 0.5
                centred = 2 * coin - 1
                bets.append(
                    [
                        centred,
                        centred * (2 * low + width - 1),
                        float(low <= coin < low + width) - width,
                        centred * (2 * told - 1),
                        centred * (2 * before - 1) if before is not None else 0.0,
                    ]
                )
                known = place is not None
                made.append([True, known, known, bool(step.draft_probs), before is not None])
                before = coin
        if bets:
            self._coins.update(np.array(bets), np.array(made))

    def summary(self, min_tokens: int) -> dict[str, Any] | None:
        """JSON-safe findings; None when no row had steps.

        Args:
            min_tokens: draws and coins below which silence means nothing.
        """
        if not self._rows:
            return None
        reasons = list(self._faults())
        verdict: Honest = "dishonest" if reasons else "honest"
        if not reasons:
            for name, process in (("draft tokens", self._draws), ("coins", self._coins)):
                if process.tokens_read < min_tokens:
                    verdict = "undecided"
                    reasons.append(
                        f"{process.tokens_read} {name} were read without a finding; at least "
                        f"{min_tokens} are needed before that counts as honest"
                    )
        return {
            "verdict": verdict,
            "reasons": reasons or ["draft tokens follow the declared draft, and coins nothing"],
            "rows": self._rows,
            "draft_known": self._noise is not None,
            "draws": {**_told(self._draws), "impossible": self._impossible},
            "coins": _told(self._coins),
            "declared": {
                "compared": self._compared,
                "apart": self._apart,
                "largest_difference": self._largest if self._compared else None,
                "tolerance": None if self._noise is None else self._noise.tolerance.to_json(),
            },
        }

    def _faults(self) -> Iterator[str]:
        if self._draws.crossed_at is not None:
            yield (
                "draft tokens were not drawn from the declared draft: the evidence sufficed after "
                f"{self._draws.crossed_at} of them; they lean {self._draws.crossed_by}"
            )
        if self._impossible:
            yield (
                f"{self._impossible} draft tokens have probability 0 under the declared draft "
                "with the requested sampling parameters"
            )
        if self._apart > _BORDER_SHARE * self._compared:
            yield (
                f"{self._apart} of {self._compared} recorded draft probabilities are not those of "
                f"the declared draft (largest difference {self._largest:.3g})"
            )
        if self._coins.crossed_at is not None:
            yield (
                "acceptance coins are not independent uniform draws: the evidence sufficed after "
                f"{self._coins.crossed_at} of them; they lean {self._coins.crossed_by}"
            )


def _told(process: EProcess) -> dict[str, Any]:
    return {
        "read": process.tokens_read,
        "log_e_value": process.log_e,
        "max_log_e_value": process.max_log_e,
        "crossed_at": process.crossed_at,
        "directions": process.by_direction,
    }


def _readable(row: AuditRow) -> Iterator[_Drawn]:
    for step in row.steps:
        if not step.drafted or step.start >= len(row.output):
            continue
        most = step.accepted + 1 if row.rule in _TOKEN_BY_TOKEN else 1
        within = len(row.output) - step.start
        for index in range(min(most, len(step.drafted), step.emitted, within)):
            yield _Drawn(step, index, step.start + index)


def _once(row: AuditRow, step: Step) -> list[float]:
    """Coins of a step, none of which is another step's.

    Sample-and-match throws a coin for each position: behind a rejection it decides nothing yet, and
    stands in the next step's trace again.
    """
    coins = list(step.accept_coins)
    return coins[: step.accepted + 1] if row.rule == "match" else coins


def _interval(law: Tensor, token: int) -> tuple[float, float]:
    """Where the inverse CDF gives the token: (low end, width)."""
    return float(law[:token].sum(dtype=torch.float64)), float(law[token])
