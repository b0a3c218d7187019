"""The exact law of an engine's replies: every run it can make, weighted by its probability.

The engine runs as always, but its draft tokens and coins follow paths (`tests.paths`), a row of the
batch each. What the paths of a batch left out is the next batch.
"""

from __future__ import annotations

from collections import defaultdict

import torch

from specdecode import Engine, SamplingParams
from specdecode.drafting.self_draft import SelfDrafter
from specdecode.verification import RULES, Coins
from specdecode.verification.block import block_acceptance
from specdecode.verification.exact import total_variation
from specdecode.verification.greedy_block import greedy_block_acceptance
from specdecode.verification.resampling import next_token_weights
from specdecode.verification.validation import prepare
from tests.decoding.toys import TableNetwork, joint_law
from tests.paths import Path

ACCEPTANCE = {"block": block_acceptance, "greedy-block": greedy_block_acceptance}


class ScriptedDrafter(SelfDrafter):
    """A drafter whose tokens are scripted; the laws it states are the network's."""

    def __init__(self, network: TableNetwork) -> None:
        super().__init__("scripted", network)
        self.paths: list[Path] = []

    def propose(self, contexts, wanted, sample):
        def scripted(logits, drawn, index):
            _, laws = sample(logits, drawn, index)
            tokens = [
                path.choose(law) if index < most else 0
                for path, law, most in zip(self.paths, laws.tolist(), wanted, strict=True)
            ]
            return torch.tensor(tokens), laws

        return super().propose(contexts, wanted, scripted)

    def propose_rows(self, rows, contexts, wanted, sample):
        whole, self.paths = self.paths, [self.paths[row] for row in rows]
        try:
            return super().propose_rows(rows, contexts, wanted, sample)
        finally:
            self.paths = whole

    def keep_rows(self, rows):
        super().keep_rows(rows)
        self.paths = [self.paths[row] for row in rows]


def scripted_rule(name: str, drafter: ScriptedDrafter):
    """The rule, with coins that make it do what the scripts say."""

    def rule(draft_tokens, draft_probs, target_probs, coins, lengths, *, validate):
        plain = prepare(draft_tokens, draft_probs, target_probs, coins, lengths, validate=True)
        plan = ACCEPTANCE[name](plain)
        accept = torch.zeros(draft_tokens.shape, dtype=torch.float64)
        kept = []
        for row, path in enumerate(drafter.paths):
            tau = int(lengths[row])
            while tau > 0:  # the last accepted position decides
                h = float(plan.probability[row, tau - 1])
                if path.choose([h, 1 - h]) == 0:
                    break
                accept[row, tau - 1] = h  # the least coin that rejects
                tau -= 1
            kept.append(tau)
        weights = next_token_weights(plain, torch.tensor(kept), plan.scale)
        resample = []
        for path, row in zip(drafter.paths, weights.tolist(), strict=True):
            token = path.choose(row)
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
        paths = [Path(script) for script in pending]
        drafter.paths = list(paths)
        results = engine.generate([prompt] * len(paths), params)
        for path, result in zip(paths, results, strict=True):
            law[result.token_ids] += path.weight
        runs += len(paths)
        pending = [script for path in paths for script in path.others]
    return dict(law), runs


def distance(law: dict[tuple[int, ...], float], target: TableNetwork, prompt: list[int]) -> float:
    """Total variation between a law of replies and the target's, given the first token."""
    ((first,),) = {reply[:1] for reply in law}
    rest = joint_law(target, [*prompt, first], len(next(iter(law))) - 1)
    return total_variation(law, {(first, *reply): weight for reply, weight in rest.items()})
