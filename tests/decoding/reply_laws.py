"""The engine's exact output law, by running it once along every path its coins can take.

Coins are replaced by names of paths. Wherever the loop would compare a coin with a law, the path
says which way to go, and its weight is multiplied by the probability of that way; what a rule does
with its coins is read off the tensor code by `specdecode.verification.exact_kernel`. Ways of
probability 0 are not taken. The rest is the real engine: laws, histories, caches, drafters, blocks
shortened at the end of the reply, and the cut itself.

Coins count as independent here. That they are is shown in test_parameter_table.py, coin by coin.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache

import numpy as np
import torch

from specdecode.decoding import draft_sampling, engine, loop, request
from specdecode.decoding.distributions import distributions
from specdecode.verification import Verification
from specdecode.verification.exact_kernel import kernel_rule
from tests.paths import Path

_SCALE = 2**20  # a path's number divided by this is its "coin"


class Explorer:
    """Patches the engine and enumerates.

    Args:
        monkeypatch: pytest's.
        rule: name of the rule.
        together: paths decoded in one batch; 1 where a path must not disturb its neighbours.
    """

    def __init__(self, monkeypatch, rule: str, together: int = 4096) -> None:
        self.paths: list[Path] = []
        self.together = together
        self.block_law = kernel_rule(rule)
        self._outcomes = cache(self._ordered_outcomes)
        monkeypatch.setattr(request, "CoinStream", _PathNumber)
        monkeypatch.setattr(loop, "inverse_cdf", self._pick)
        monkeypatch.setattr(draft_sampling, "inverse_cdf", self._pick)
        monkeypatch.setitem(engine.RULES, rule, self._verify)

    def law(self, tool, prompt, params) -> dict[tuple, float]:
        """Probability of every reply."""
        found: dict[tuple, float] = defaultdict(float)
        waiting: list[tuple[int, ...]] = [()]
        while waiting:
            scripts, waiting = waiting[: self.together], waiting[self.together :]
            self.paths = [Path(script) for script in scripts]
            each = [params.model_copy(update={"seed": i}) for i in range(len(scripts))]
            results = tool.generate([prompt] * len(scripts), each)
            for path, result in zip(self.paths, results, strict=True):
                found[result.token_ids] += path.weight
                waiting += path.others
        return dict(found)

    def _pick(self, weights, coins):
        rows = zip(self._of(coins), weights.tolist(), strict=True)
        return torch.tensor([path.choose(row) for path, row in rows])

    def _verify(self, tokens, q, p, coins, lengths=None, *, validate=True):
        kept, following = [], []
        for row, path in enumerate(self._of(coins.resample)):
            length = int(lengths[row])
            outcomes, sizes = self._outcomes(
                tuple(tokens[row, :length].tolist()),
                tuple(map(tuple, q[row, :length].tolist())),
                tuple(map(tuple, p[row, : length + 1].tolist())),
            )
            tau, token = outcomes[path.choose(sizes)]
            kept.append(tau)
            following.append(token)
        return Verification(torch.tensor(kept), torch.tensor(following))

    def _ordered_outcomes(self, tokens, q, p):
        if tokens:
            law = self.block_law(tokens, q, p)
        else:
            law = {(0, token): size for token, size in enumerate(p[0]) if size > 0}
        return list(law), list(law.values())

    def _of(self, coins):
        return [self.paths[round(coin * _SCALE)] for coin in coins.tolist()]


class _PathNumber:
    """In place of a request's coins: the number of its path, whatever is drawn."""

    def __init__(self, seed, prompt, sample_index=0) -> None:
        self.value = seed / _SCALE

    def draw(self, purpose, index, count, part=0):
        return np.full(count, self.value)


def plain_law(network, prompt, params, ends=lambda reply: False) -> dict[tuple, float]:
    """What plain decoding gives, from the definition: table look-ups, no cache, no engine."""
    law = {(): 1.0}
    done: dict[tuple, float] = {}
    while law:
        longer = {}
        for reply, weight in law.items():
            context = [*prompt, *reply]
            row = distributions(network.logits(context)[None], params, [context], len(prompt))[0]
            for token, p in enumerate(row.tolist()):
                if p > 0:
                    longer[*reply, token] = weight * p
        law = {}
        for reply, weight in longer.items():
            over = len(reply) == params.max_tokens or ends(reply)
            (done if over else law)[reply] = weight
    return done
