"""What can be wrong with the candidate on purpose, each as users and engineers meet it.

slow         every reply begins late
errors       some requests get HTTP 500
one-stratum  requests of one category begin late, all others are as they should be
biased       verification forgets to subtract the draft's law where it resamples, so that replies
             lean towards the draft; nothing else shows it

All but the last are put in front of the server's application, as a faulty proxy or a starved
machine would be.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch
from starlette.types import ASGIApp, Receive, Scope, Send
from torch import Tensor

from specdecode.errors import ConfigError
from specdecode.verification import Coins, Verification, block_verification
from specdecode.verification.resampling import inverse_cdf, rows_at

NONE, SLOW, ERRORS, ONE_STRATUM, BIASED = "none", "slow", "errors", "one-stratum", "biased"
FAULTS: Final = (NONE, SLOW, BIASED, ERRORS, ONE_STRATUM)

CATEGORY_HEADER: Final = b"x-specdecode-category"
ANSWERS: Final = ("/v1/completions", "/v1/chat/completions")
_ERROR = json.dumps(
    {"error": {"message": "a fault that was planted on purpose", "type": "server_error"}}
).encode()


@dataclass(frozen=True)
class FaultSettings:
    """How bad it is, and whether it waits for a sign.

    Attributes:
        fault: one of `FAULTS`.
        waits: whether it begins only when `Faulty.begin` is called. A bias is there from the start,
            since the rule of an engine that runs does not change.
        delay_s: by which a late reply begins late.
        share: of requests that get an error.
        category: the one that is harmed, by the request's header.
        seed: of the choice of requests that get an error.

    Raises:
        ConfigError: naming the setting.
    """

    fault: str = NONE
    waits: bool = False
    delay_s: float = 3.0
    share: float = 0.05
    category: str = "code"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.fault not in FAULTS:
            known = ", ".join(FAULTS)
            raise ConfigError(f"there is no fault '{self.fault}'; choose one of {known}")
        if self.waits and self.fault == BIASED:
            raise ConfigError("a biased engine is biased from its first reply: it cannot wait")
        if not 0 < self.delay_s < float("inf"):
            raise ConfigError(f"delay_s: seconds above 0, not {self.delay_s:g}")
        if not 0 < self.share <= 1:
            raise ConfigError(f"share: above 0 and at most 1, not {self.share:g}")


class Faulty:
    """An application with a fault in front of it; an ASGI application itself.

    Args:
        app: answers whatever is let through.
        settings: what goes wrong.
        wait: spends a delay; other than by the clock in tests.
    """

    def __init__(
        self,
        app: ASGIApp,
        settings: FaultSettings,
        wait: Callable[[float], object] = asyncio.sleep,
    ) -> None:
        self._app, self._settings, self._wait = app, settings, wait
        self._draw = random.Random(settings.seed)  # noqa: S311 - a choice that can be repeated
        self._has_begun = not settings.waits

    def begin(self) -> None:
        """From now on it is faulty; a signal handler may call it."""
        self._has_begun = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or fail to."""
        if scope["type"] == "http" and scope["path"] in ANSWERS and self._has_begun:
            if self._fails():
                await _refuse(send)
                return
            if self._is_late(scope):
                await self._wait(self._settings.delay_s)  # type: ignore[misc]
        await self._app(scope, receive, send)

    def _fails(self) -> bool:
        return self._settings.fault == ERRORS and self._draw.random() < self._settings.share

    def _is_late(self, scope: Scope) -> bool:
        if self._settings.fault == ONE_STRATUM:
            return dict(scope["headers"]).get(CATEGORY_HEADER) == self._settings.category.encode()
        return self._settings.fault == SLOW


async def _refuse(send: Send) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(_ERROR))]
    await send({"type": "http.response.start", "status": 500, "headers": headers})
    await send({"type": "http.response.body", "body": _ERROR})


def without_residual(
    draft_tokens: Tensor,
    draft_probs: Tensor,
    target_probs: Tensor,
    coins: Coins,
    lengths: Tensor | None = None,
    *,
    validate: bool = True,
) -> Verification:
    """Block verification with a fault: after a rejection it draws from the target's own law.

    What was accepted leaned towards the draft already, and the residual would have made up for it.
    The reply is fluent, as fast as ever, and from another distribution than the target's.

    Arguments, result and errors: see `specdecode.verification.VerificationRule`.
    """
    right = block_verification(
        draft_tokens, draft_probs, target_probs, coins, lengths, validate=validate
    )
    rows = torch.arange(len(right.num_accepted), device=target_probs.device)
    laws = rows_at(target_probs, right.num_accepted, rows)
    return Verification(right.num_accepted, inverse_cdf(laws, coins.resample.double()))
