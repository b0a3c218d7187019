"""What a mirror writes to; the router's spool is one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from specdecode.measurement.records import Record


class MirrorSpool(Protocol):
    """What a mirror writes to."""

    @property
    def recording(self) -> bool:
        """Whether rows can be written."""
        ...

    def begin(self, asked: Mapping[str, Any]) -> object:
        """A request is about to be sent."""
        ...

    def append(self, record: Record, extra: Mapping[str, Any] | None = None) -> None:
        """Its row."""
        ...

    def queued(self, asked: Mapping[str, Any], partner: str) -> None:
        """A copy waits to be sent; `partner` is the row that it will be compared with."""
        ...

    def without_row(
        self, kind: str, request_id: str, why: str, *, retract: Sequence[str] = (), **details: Any
    ) -> None:
        """There will be no row of it, begun or not; the rows to `retract` do not count either.

        Among the details are its stage and manifest, for a reader who counts what got no reply.
        """
        ...


class NoRow(NamedTuple):
    """A reply that says nothing of the candidate, such as a refusal of the user's own mistake.

    Attributes:
        kind: as the spool names it.
        why: for people.
    """

    kind: str
    why: str
