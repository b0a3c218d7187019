"""How far a stale cache bends the laws that tokens are drawn from.

What is in the cache depends on every rejection so far, so there is no law of one step to enumerate.
But verification itself is right: each token follows the law that the engine saw at its position.
That law is taken down while the engine runs and compared with the target's, read anew. It is the
distance for someone who knows the state of the cache, which is no smaller than an observer's.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specdecode.audit.faults.distance import Distance, mean_of
from specdecode.audit.faults.fault import PlantedEngine
from specdecode.audit.faults.grouping import Asked
from specdecode.audit.faults.target_faults import TargetFault, wrong_laws
from specdecode.decoding import SamplingParams
from specdecode.decoding.lengths import Lengths
from specdecode.decoding.loop import Batch
from specdecode.decoding.request import Request
from specdecode.decoding.scoring import teacher_forced
from specdecode.verification import Coins, Verification, VerificationRule


class _Watched(PlantedEngine):
    """A planted engine that takes down the laws its tokens are drawn from."""

    seen: dict[int, list[Tensor]]

    def _batch(
        self,
        requests: list[Request],
        *,
        trace: bool,
        started: float | None = None,
        lengths: Lengths | None = None,
    ) -> Batch:
        batch = super()._batch(requests, trace=trace, started=started, lengths=lengths)
        self.seen = {request.seed: [] for request in requests}
        batch.rule = _TakesDown(batch.rule, batch, self.seen)
        return batch


class _TakesDown:
    def __init__(self, rule: VerificationRule, batch: Batch, seen: dict[int, list[Tensor]]) -> None:
        self._rule, self._batch, self._seen = rule, batch, seen

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
        outcome = self._rule(
            draft_tokens, draft_probs, target_probs, coins, lengths, validate=validate
        )
        for row, request in enumerate(self._batch.requests):
            used = int(outcome.num_accepted[row]) + 1
            self._seen[request.seed].extend(target_probs[row, :used].clone())
        return outcome


def stale_distance(
    engine: PlantedEngine, prompts: Sequence[list[int]], params: SamplingParams
) -> Distance:
    """Mean total variation between the laws that tokens were drawn from and the target's.

    Args:
        engine: with a fault that leaves verification and the draft right.
        prompts: one reply is made for each.
        params: of all of them; seeds are 0, 1, ….
    """
    watched = _Watched(engine, engine.fault)
    each = [params.model_copy(update={"seed": index}) for index in range(len(prompts))]
    results = watched.generate(list(prompts), each)
    pairs = [(list(r.prompt_token_ids), list(r.token_ids)) for r in results]
    gaps = []
    for index, logits in teacher_forced(engine.target, pairs):
        prompt, reply = pairs[index]
        asked: list[Asked] = [_Read(params, prompt, prompt)]
        tokens = torch.tensor([reply[:-1]])
        right = wrong_laws(TargetFault(), logits[None], asked, tokens, [0])[0]
        seen = torch.stack(watched.seen[index])[: len(reply) - 1]  # the first token: by no step
        gaps.append(((seen - right[1:]).abs().sum(-1) / 2).tolist())
    return mean_of(gaps)


class _Read:
    def __init__(self, params: SamplingParams, tokens: list[int], prompt: list[int]) -> None:
        self.params, self.tokens, self.prompt = params, tokens, prompt
