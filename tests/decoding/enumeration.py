"""The exact law of an engine's replies: every run it can make, weighted by its probability.

The engine runs as always, but its draft tokens and coins follow a script of choices. Runs whose
choices were all scripted are leaves; where a run had to choose beyond its script, the alternatives
become scripts of the next round. All scripts of a round are the rows of one batch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import torch

from specdecode import Engine, SamplingParams
from specdecode.drafting.self_draft import SelfDrafter
from specdecode.verification import RULES, Coins
from specdecode.verification.block import block_acceptance
from specdecode.verification.greedy_block import greedy_block_acceptance
from specdecode.verification.resampling import next_token_weights
from specdecode.verification.validation import prepare
from tests.decoding.toys import TableNetwork

ACCEPTANCE = {"block": block_acceptance, "greedy-block": greedy_block_acceptance}


class Script:
    """Choices of one run: those given, then always the first."""

    def __init__(self, given: tuple[int, ...]) -> None:
        self.given, self.taken, self.options, self.weight = given, [], [], 1.0

    def pick(self, weights: Sequence[float]) -> int:
        """Choose an index of positive weight, and account for its probability."""
        possible = [i for i, w in enumerate(weights) if w > 0]
        at = len(self.taken)
        choice = self.given[at] if at < len(self.given) else 0
        self.taken.append(choice)
        self.options.append(len(possible))
        self.weight *= weights[possible[choice]] / sum(weights)
        return possible[choice]

    def alternatives(self) -> list[tuple[int, ...]]:
        """Scripts for what this run might have done instead, after its given choices."""
        return [
            (*self.taken[:at], other)
            for at in range(len(self.given), len(self.taken))
            for other in range(1, self.options[at])
        ]


class ScriptedDrafter(SelfDrafter):
    """A drafter whose tokens are scripted; the laws it states are the network's."""

    def __init__(self, network: TableNetwork) -> None:
        super().__init__("scripted", network)
        self.scripts: list[Script] = []

    def propose(self, contexts, wanted, sample):
        def scripted(logits, drawn, index):
            _, laws = sample(logits, drawn, index)
            tokens = [
                script.pick(law) if index < most else 0
                for script, law, most in zip(self.scripts, laws.tolist(), wanted, strict=True)
            ]
            return torch.tensor(tokens), laws

        return super().propose(contexts, wanted, scripted)

    def keep_rows(self, rows):
        super().keep_rows(rows)
        self.scripts = [self.scripts[row] for row in rows]


def scripted_rule(name: str, drafter: ScriptedDrafter):
    """The rule, with coins that make it do what the scripts say."""

    def rule(draft_tokens, draft_probs, target_probs, coins, lengths, *, validate):
        plain = prepare(draft_tokens, draft_probs, target_probs, coins, lengths, validate=True)
        plan = ACCEPTANCE[name](plain)
        accept = torch.zeros(draft_tokens.shape, dtype=torch.float64)
        kept = []
        for row, script in enumerate(drafter.scripts):
            tau = int(lengths[row])
            while tau > 0:  # the last accepted position decides
                h = float(plan.probability[row, tau - 1])
                if script.pick([h, 1 - h]) == 0:
                    break
                accept[row, tau - 1] = h  # the least coin that rejects
                tau -= 1
            kept.append(tau)
        weights = next_token_weights(plain, torch.tensor(kept), plan.scale)
        resample = []
        for script, row in zip(drafter.scripts, weights.tolist(), strict=True):
            token = script.pick(row)
            resample.append((sum(row[:token]) + row[token] / 2) / sum(row))
        scripted = Coins(accept, torch.tensor(resample, dtype=torch.float64))
        return RULES[name](draft_tokens, draft_probs, target_probs, scripted, lengths)

    return rule


def reply_law(
    engine: Engine, prompt: list[int], length: int, monkeypatch
) -> tuple[dict[tuple[int, ...], float], int]:
    """Law of replies of `length` tokens, given their first one (which the target draws itself).

    Args:
        engine: its drafter is a `ScriptedDrafter`, its rule "block" or "greedy-block".
        prompt: token ids.
        length: tokens of a reply.
        monkeypatch: pytest's, to put the scripted rule in place.

    Returns:
        The law, and the number of runs it was made from.
    """
    drafter, name = engine.drafter, engine.verification
    monkeypatch.setattr(
        "specdecode.decoding.engine.RULES", {name: scripted_rule(name, drafter)}, raising=True
    )
    params = SamplingParams(max_tokens=length, seed=1)
    law: dict[tuple[int, ...], float] = defaultdict(float)
    runs, pending = 0, [()]
    while pending:
        scripts = [Script(given) for given in pending]
        drafter.scripts = list(scripts)
        results = engine.generate([prompt] * len(scripts), params)
        for script, result in zip(scripts, results, strict=True):
            law[result.token_ids] += script.weight
        runs += len(scripts)
        pending = [given for script in scripts for given in script.alternatives()]
    return dict(law), runs


def distance(law: dict[tuple[int, ...], float], target: TableNetwork, prompt: list[int]) -> float:
    """Total variation between a law of replies and the target's, given the first token."""
    first = {reply[0] for reply in law}
    assert len(first) == 1
    length = len(next(iter(law)))
    plain = {tuple(first): 1.0}
    for _ in range(length - 1):
        plain = {
            (*reply, token): weight * float(p)
            for reply, weight in plain.items()
            for token, p in enumerate(target.law([*prompt, *reply]))
        }
    return sum(abs(law.get(k, 0) - plain.get(k, 0)) for k in law.keys() | plain.keys()) / 2
