"""Where a token stands in the steps of speculative decoding, and bets that look there alone.

A fault of the bookkeeping (a state that was not rolled back, a bonus token from the wrong row)
strikes at one place of a step and drowns among all tokens. Two places are known before their token
is drawn, so that a bet on them stays fair:

    after rejection   the first token of a step whose predecessor ended in a rejection
    bonus             the token after a step's whole draft was accepted

The token that replaces a rejected one is no such place: that it is a replacement is learnt together
with the token, and given that, a correct engine draws from the residual law and not from p.

Fairness holds for rules whose every token follows the target given the steps so far: token and
block verification and sample-and-match. Greedy block verification is lossless only together with
the modified target of later steps, so steps of other rules are not looked at.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from specdecode.errors import DataValidationError

Place = Literal["unknown", "first", "after rejection", "inside", "bonus"]

# Rules under which a token follows the target given all earlier steps.
FAIR_RULES = frozenset({"token", "block", "match"})
GATES: tuple[Place, ...] = ("after rejection", "bonus")
_LOOKED_AT = ("draft", "sharper", "flatter")

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Step:
    """One draft-and-verify step, as recorded.

    Attributes:
        start: output position of its first token.
        drafted: draft tokens proposed.
        accepted: how many the rule kept.
        emitted: tokens that entered the output.
        draft_probs: declared probability of each proposed token; empty when not recorded.
        accept_coins: one per proposed token; empty when not recorded.
    """

    start: int
    drafted: tuple[int, ...]
    accepted: int
    emitted: int
    draft_probs: tuple[float, ...] = ()
    accept_coins: tuple[float, ...] = ()


def steps_of(record: Mapping[str, Any], output: Sequence[int], label: str) -> tuple[Step, ...]:
    """The steps of a record's `trace`, checked against its output; () when it has none.

    Args:
        record: `trace` is a list of mappings as `StepTrace` has fields, or its JSON text.
        output: emitted tokens, as recorded.
        label: names the row in errors.

    Raises:
        DataValidationError: the trace is malformed or tells of another output.
    """
    trace = record.get("trace")
    if isinstance(trace, str):
        try:
            trace = json.loads(trace)
        except ValueError as error:
            raise DataValidationError(f"{label}: trace is not JSON: {error}") from error
    if trace is None:
        return ()
    steps: list[Step] = []
    told: list[int] = []
    for number, entry in enumerate(trace):
        try:
            emitted = [int(token) for token in entry["emitted"]]
            step = Step(
                start=len(told),
                drafted=tuple(int(token) for token in entry["draft_tokens"]),
                accepted=int(entry["num_accepted"]),
                emitted=len(emitted),
                draft_probs=tuple(float(value) for value in entry.get("draft_probs") or ()),
                accept_coins=tuple(float(value) for value in entry.get("accept_coins") or ()),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise DataValidationError(
                f"{label}: trace[{number}] needs draft_tokens, num_accepted and emitted ({error!r})"
            ) from error
        _check(step, f"{label}: trace[{number}]")
        steps.append(step)
        told += emitted
    lead = _lead(told, list(output))
    if lead is None:
        raise DataValidationError(
            f"{label}: the trace emitted {len(told)} tokens that are not the {len(output)} of "
            "output_token_ids; record both of the same reply, whole"
        )
    return tuple(replace(step, start=step.start + lead) for step in steps)


def _lead(told: list[int], output: list[int]) -> int | None:
    """How many tokens came before the first step: the prompt's own pass may give one.

    A step may emit an end token that the output leaves out. None if they do not fit.
    """
    for lead in (0, 1):
        rest = output[lead:]
        both = min(len(told), len(rest))
        if told[:both] == rest[:both] and len(told) - len(rest) in (0, 1):
            return lead
    return None


def _check(step: Step, where: str) -> None:
    count = len(step.drafted)
    if not 0 <= step.accepted <= count or step.emitted > step.accepted + 1:
        raise DataValidationError(
            f"{where}: {step.accepted} of {count} draft tokens accepted and {step.emitted} emitted "
            "cannot be: at most the accepted ones and one more are emitted"
        )
    for name, values in (("draft_probs", step.draft_probs), ("accept_coins", step.accept_coins)):
        if values and len(values) != count:
            raise DataValidationError(f"{where}: {len(values)} {name} for {count} draft tokens")
        if not all(0 <= value <= 1 for value in values):
            raise DataValidationError(f"{where}: {name} must lie inside [0, 1]")


def places(steps: Sequence[Step], length: int, rule: str | None) -> list[Place]:
    """The place of each output position, by what is known before its token is drawn."""
    found: list[Place] = ["unknown"] * length
    if rule not in FAIR_RULES:
        return found
    rejected = False
    for step in steps:
        for offset in range(min(step.emitted, length - step.start)):
            at = step.start + offset
            if step.drafted and offset == step.accepted == len(step.drafted):
                found[at] = "bonus"
            elif offset == 0:
                found[at] = "after rejection" if rejected else "first"
            else:
                found[at] = "inside"
        rejected = step.accepted < len(step.drafted)
    return found


def gated_names(names: Sequence[str]) -> list[str]:
    """Names of the bets that look at one place alone, in the order of `gated`."""
    return [f"{gate}: {name}" for gate in GATES for name in names if name in _LOOKED_AT]


def gated(
    bets: FloatArray, names: Sequence[str], where: Sequence[Place]
) -> tuple[FloatArray, BoolArray]:
    """Adds the columns of `gated_names` to the bets.

    Args:
        bets: float64 [T, D], one column a name.
        names: of the columns.
        where: place of each of the T positions.

    Returns:
        float64 [T, D + G], and bool of the same shape: whether a bet was made.
    """
    looked_at = [column for column, name in enumerate(names) if name in _LOOKED_AT]
    parts, made = [bets], [np.ones(bets.shape, dtype=np.bool_)]
    for gate in GATES:
        here = np.array([place == gate for place in where], dtype=np.bool_)[:, None]
        parts.append(np.where(here, bets[:, looked_at], 0.0))
        made.append(np.broadcast_to(here, (len(bets), len(looked_at))))
    return np.concatenate(parts, axis=1), np.concatenate(made, axis=1)
