"""How many tokens each row of a batch drafts next.

Every row decides for itself, with the costs of a batch as large as the present one, and so as if
all rows decided alike. A step's real cost is that of its widest row: rows that want fewer tokens
are drafted along and cut, and only those that want none are left out. A row's length depends on
rows it shares a batch with through their number alone, which is known before the step (see
`specdecode.drafting.length`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from specdecode.decoding.request import Request
from specdecode.drafting.length import AdaptiveLength, DraftLength, FixedLength

MakeLength = Callable[[Request], DraftLength]


class Lengths:
    """Draft lengths of a batch.

    Args:
        requests: the requests that the batch begins with.
        make: makes the control of one request.
        seconds: costs of a step with 0, 1, … γ_max draft tokens, by batch size.
    """

    def __init__(
        self,
        requests: Sequence[Request],
        make: MakeLength,
        seconds: Callable[[int], Sequence[float]],
    ) -> None:
        self._make, self._seconds = make, seconds
        self._controls: dict[Request, DraftLength] = {}
        self.add(requests)

    @classmethod
    def fixed(cls, requests: Sequence[Request], gamma: int) -> Lengths:
        """γ tokens in every step."""
        return cls(requests, lambda _request: FixedLength(gamma), lambda _size: ())

    @classmethod
    def adaptive(
        cls, requests: Sequence[Request], seconds: Callable[[int], Sequence[float]]
    ) -> Lengths:
        """What promises the most tokens per second."""
        return cls(requests, lambda _request: AdaptiveLength(), seconds)

    def add(self, requests: Sequence[Request]) -> None:
        """Take in requests that join."""
        self._controls.update({request: self._make(request) for request in requests})

    def drop(self, requests: Sequence[Request]) -> None:
        """Forget requests that left."""
        for request in requests:
            del self._controls[request]

    def wanted(self, requests: Sequence[Request]) -> list[int]:
        """Draft tokens of the next step per row, and no more than each reply can still take."""
        seconds = self._seconds(len(requests))
        return [
            self._controls[r].choose(seconds, max(0, r.limit - len(r.output) - 1)) for r in requests
        ]

    def learn(self, requests: Sequence[Request], drafted: list[int], kept: list[int]) -> None:
        """Take note of the step's outcome: per row, tokens drafted and kept."""
        for request, d, k in zip(requests, drafted, kept, strict=True):
            self._controls[request].observe(d, k)
