"""A segment in place of those that the disk failed to sync.

Nobody knows what such a segment holds beyond its last good sync: the kernel tells of a failure once
and then takes the pages for clean. So there is no second try. The segment is closed with what is
known to be on the disk, and all that came later is written again into the next one, which is synced
before readers find it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from specdecode.rollout.spool_segment import Segment


def successor(current: Segment, failed: Sequence[Segment], in_flight: Iterable[bytes]) -> Segment:
    """The segment to go on in. After an error all is as before, and it may be called again.

    Args:
        current: that was written to so far; the one to go on in unless it is one of `failed`.
        failed: those that could not be synced.
        in_flight: first lines of the requests that have begun and not ended.

    Raises:
        OSError: the disk fails still.
    """
    if current not in failed:
        _write_again(current, failed)
        return current
    following = Segment(current.folder, current.number + 1, hidden=True)
    try:
        following.write(b"".join(in_flight), rows=0)
        following.sync()
        _write_again(following, failed)
        following.show()
    except OSError:
        following.discard()
        raise
    return following


def _write_again(segment: Segment, failed: Sequence[Segment]) -> None:
    """What is in doubt; first lines are there already, unless their request has ended."""
    doubtful = [line for each in failed for line in each.cut_back()]
    again = [line for line in doubtful if line.kind not in ("begin", "queued")]
    segment.write(b"".join(line.data for line in again), rows=len(again), lines=again)
