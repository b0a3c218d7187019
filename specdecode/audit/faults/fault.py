"""A fault, and how it is planted in an engine.

The engine's own code stays as it is: a planted engine is another class, which changes a batch after
the right engine has made it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from specdecode.audit.faults.draft_faults import DraftFault, FaultyDrafter
from specdecode.audit.faults.parts import CORRECT, RuleParts
from specdecode.audit.faults.rule_faults import Change
from specdecode.audit.faults.target_faults import TargetFault, WatchedNetwork, wrong_laws
from specdecode.decoding import Engine
from specdecode.decoding.lengths import Lengths
from specdecode.decoding.loop import Batch
from specdecode.decoding.request import Request
from specdecode.errors import ConfigError
from specdecode.verification import RULES, Coins, Verification, VerificationRule


@dataclass(frozen=True)
class Fault:
    """One way in which a speculative engine is wrong.

    Attributes:
        name: by which it is planted and reported.
        breaks: what is wrong, in one sentence.
        fits: verification rules it can be planted in; the first one is studied.
        sampling: parameters under which it bites, in place of temperature 1 alone.
        rule: what it does to a rule's parts; None for nothing.
        draft: what it does to the draft.
        target: what it does to the target's laws or state.
    """

    name: str
    breaks: str
    fits: tuple[str, ...] = ("block", "token")
    sampling: Mapping[str, Any] = field(default_factory=dict)
    rule: Change | None = None
    draft: DraftFault | None = None
    target: TargetFault | None = None

    def parts(self, verification: str) -> RuleParts:
        """The parts of the rule that runs.

        Raises:
            ConfigError: it does not fit this rule.
        """
        self.check_fits(verification)
        right = CORRECT[verification]
        return right if self.rule is None else self.rule(right)

    def check_fits(self, verification: str) -> None:
        """Refuses a rule that it cannot be planted in.

        Raises:
            ConfigError: names those that fit.
        """
        if verification not in self.fits:
            raise ConfigError(
                f"fault '{self.name}' cannot be planted in verification '{verification}'; "
                f"it fits: {', '.join(self.fits)}"
            )


class PlantedEngine(Engine):
    """An engine with a fault; all else is that of the engine it was made from. See `plant`."""

    def __init__(self, engine: Engine, fault: Fault) -> None:
        if engine.drafter is None:
            raise ConfigError(
                f"fault '{fault.name}' needs a draft: in plain decoding nothing is verified"
            )
        fault.check_fits(engine.verification)
        own = engine.drafter if fault.draft is None else FaultyDrafter(engine.drafter, fault.draft)
        super().__init__(engine.target, own, engine.verification, engine.num_speculative_tokens)
        self.fault = fault

    def _batch(
        self,
        requests: list[Request],
        *,
        trace: bool,
        started: float | None = None,
        lengths: Lengths | None = None,
    ) -> Batch:
        batch = super()._batch(requests, trace=trace, started=started, lengths=lengths)
        if isinstance(self.drafter, FaultyDrafter):
            self.drafter.requests = lambda: batch.requests
        if self.fault.rule is not None:
            batch.rule = self.fault.parts(self.verification)
        target = self.fault.target
        if target is not None:
            watched = WatchedNetwork(batch.network, batch, stale_cache=target.stale_cache)
            batch.network = watched
            if target.changes_laws:
                batch.rule = _OnWrongLaws(batch.rule, target, watched, batch)
        return batch


class _OnWrongLaws:
    """A rule that is handed other target laws than it should be."""

    def __init__(
        self, rule: VerificationRule, fault: TargetFault, network: WatchedNetwork, batch: Batch
    ) -> None:
        self._rule, self._fault, self._network, self._batch = rule, fault, network, batch

    def __call__(
        self,
        draft_tokens: Tensor,
        draft_probs: Tensor,
        target_probs: Tensor,
        coins: Coins,
        lengths: Tensor | None = None,
        *,
        validate: bool = True,
    ) -> Verification:
        """See `specdecode.verification.VerificationRule`."""
        logits = self._network.logits
        if logits is not None and logits.shape == target_probs.shape:
            B, G = draft_tokens.shape
            real = torch.full((B,), G) if lengths is None else lengths
            target_probs = wrong_laws(
                self._fault, logits, self._batch.requests, draft_tokens, real.tolist()
            )
        return self._rule(
            draft_tokens, draft_probs, target_probs, coins, lengths, validate=validate
        )


def plant(engine: Engine, fault: Fault) -> PlantedEngine:
    """The same engine with a fault in it; the one handed in stays right.

    Both share models and drafter, so only one of them may decode at a time.

    Args:
        engine: a speculative one with a fixed draft length.
        fault: see `specdecode.audit.faults.FAULTS`.

    Raises:
        ConfigError: the engine decodes plainly, chooses its draft lengths, or has a rule that the
            fault does not fit.
    """
    if engine.is_adaptive:
        raise ConfigError(
            f"fault '{fault.name}' is planted in engines with a fixed draft length; "
            "give num_speculative_tokens as a number"
        )
    if engine.verification not in RULES:
        raise ConfigError(f"there is no verification rule '{engine.verification}'")
    return PlantedEngine(engine, fault)
