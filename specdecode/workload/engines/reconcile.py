"""Do the counts of the requests add up to what the server counted?

If not, something else happened on the server: other clients, requests that were cancelled, replies
that were asked for several at once. The numbers of the server then say nothing of these requests.
"""

from __future__ import annotations

from collections.abc import Iterable

from specdecode.workload.engines.speculation import AggregateSpeculation, RequestSpeculation

_COUNTS = ("steps", "drafted", "accepted")


def differences(
    requests: Iterable[RequestSpeculation], server: AggregateSpeculation
) -> tuple[str, ...]:
    """What keeps requests and server from telling the same story.

    Args:
        requests: every request sent between two readings, failed and cancelled ones too.
        server: what the server counted between them.

    Returns:
        One sentence for each count that differs or cannot be compared; empty if all agree.
    """
    all_of_them = list(requests)
    found = []
    for name in _COUNTS:
        counted = getattr(server, name)
        if counted is None:
            found.append(f"{name} cannot be compared: the server, {server.unknown[name]}")
            continue
        silent = [r for r in all_of_them if getattr(r, name) is None or name in r.derived]
        if silent:
            why = silent[0].unknown.get(name) or silent[0].derived[name]
            found.append(
                f"{name} cannot be compared: {len(silent)} of {len(all_of_them)} requests have no "
                f"exact number ({why})"
            )
            continue
        told = sum(getattr(r, name) for r in all_of_them)
        if told != counted:
            found.append(
                f"{name}: {told} in {len(all_of_them)} requests, {counted} on the server: other "
                "clients, cancelled requests or several replies to one"
            )
    return tuple(found)
