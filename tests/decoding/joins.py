"""Requests, engines and facts for tests of a running batch."""

from __future__ import annotations

import torch

from specdecode import Engine, SamplingParams
from specdecode.decoding.intake import make_requests
from specdecode.decoding.request import Request
from specdecode.decoding.result import finished
from specdecode.errors import OutOfMemoryError
from tests.decoding.drafters import toy_drafters
from tests.decoding.toys import TableNetwork, ToyModel

DRAFTERS = {"none": lambda: None, **toy_drafters()}
RULES = ("token", "block", "match")
PROMPT = [0, 1, 2, 0, 1]
LENGTH = 4
REQUESTS = [
    (PROMPT, SamplingParams(max_tokens=12, seed=1)),
    ([2], SamplingParams(max_tokens=3, seed=2, temperature=0.5, logprobs=2)),
    (PROMPT, SamplingParams(max_tokens=9, seed=3, top_k=2, repetition_penalty=1.4)),
    ([1, 2, 0, 0, 1, 2, 1, 1], SamplingParams(max_tokens=7, seed=1, temperature=0)),
    ([0, 0], SamplingParams(max_tokens=1, seed=4)),
    ([2, 1, 0], SamplingParams(max_tokens=20, seed=5, min_p=0.1, logit_bias={1: 0.5})),
]


def toy_engine(drafter="none", rule="block", gamma=3, network=None) -> Engine:
    model = ToyModel(network or TableNetwork(1, dtype=torch.float64))
    return Engine(model, DRAFTERS[drafter](), rule, gamma)


def requests_of(tool, *indices) -> list[Request]:
    return [make_requests(tool.target, [REQUESTS[i][0]], REQUESTS[i][1])[0] for i in indices]


def facts(tool, request):
    result = finished(request, tool.num_speculative_tokens, trace=False)
    return result.token_ids, result.acceptance, result.logprobs, result.finish_reason


def alone(tool, index):
    (result,) = tool.generate([REQUESTS[index][0]], REQUESTS[index][1])
    return result.token_ids, result.acceptance, result.logprobs, result.finish_reason


class FailsOnce(TableNetwork):
    """One pass fails."""

    def __init__(self, seed, at):
        super().__init__(seed, dtype=torch.float64)
        self.left = at

    def forward(self, tokens, starts, cache, select=None):
        self.left -= 1
        if self.left == 0:
            raise OutOfMemoryError("just once")
        return super().forward(tokens, starts, cache, select)
