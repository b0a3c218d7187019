"""What can be done next with a release: one of six things, each with a reason and an owner."""

from __future__ import annotations

from dataclasses import dataclass

from specdecode.rollout.state import Mode


@dataclass(frozen=True, kw_only=True)
class Action:
    """The next thing to do.

    Attributes:
        reason: why, in plain words.
        owner: who answers for it, or is told.
    """

    reason: str
    owner: str


@dataclass(frozen=True, kw_only=True)
class SetState(Action):
    """Go one step up.

    Attributes:
        mode: the router's next mode.
        share: of requests that are copied, or answered by the candidate.
        expected_version: of the state this was decided on; the router refuses any other.
    """

    mode: Mode
    share: float
    expected_version: int


@dataclass(frozen=True, kw_only=True)
class AskApproval(Action):
    """Wait for people.

    Attributes:
        verdict_sha256: what they are to sign: the verdict's file.
        roles: as which they sign; one entry a signature that is missing.
    """

    verdict_sha256: str
    roles: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Hold(Action):
    """Leave everything as it is.

    Attributes:
        ended: whether waiting is of no use: only a person's doing changes it.
    """

    ended: bool = False


@dataclass(frozen=True, kw_only=True)
class RollBack(Action):
    """Give users plain decoding again: harm was shown."""


@dataclass(frozen=True, kw_only=True)
class Stop(Action):
    """Give users plain decoding again, and escalate: what was recorded cannot be judged."""


@dataclass(frozen=True, kw_only=True)
class Promote(Action):
    """Make the candidate what all users get, once a bundle of this verdict verifies.

    Attributes:
        verdict_sha256: of the last step, GO and signed as the plan asks.
        expected_version: of the router's state this was decided on.
    """

    verdict_sha256: str
    expected_version: int


Retreat = RollBack | Stop
"""What makes the candidate's share smaller. Never waits for a signature or a record."""
