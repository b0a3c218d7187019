"""What `specdecode doctor --server` asks: who answers there, and what does it hide?"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from specdecode.cli.checks import Check

if TYPE_CHECKING:
    from specdecode.workload.engines import Detected


def check_servers(addresses: Iterable[str], *, api_key: str | None) -> Iterator[Check]:
    """Yield a finding for each server, in the order given.

    Args:
        addresses: of OpenAI-compatible servers, with or without `/v1`.
        api_key: sent to each as a bearer token, or None.

    Raises:
        ConfigError: an address is not one of HTTP.
    """
    for address in addresses:
        yield _server(address, api_key)


def _server(address: str, api_key: str | None) -> Check:
    from specdecode.workload.engines import AccessDeniedError, detect
    from specdecode.workload.engines.errors import ServerError

    name = f"server {address}"
    try:
        found = asyncio.run(detect(address, api_key=api_key))
    except AccessDeniedError as error:
        return Check(
            name=name,
            status="missing",
            detail=error.problem,
            fix="put its key into the variable that --api-key-env names",
        )
    except ServerError as error:
        return Check(
            name=name,
            status="missing",
            detail=error.problem,
            fix="start the server, or correct the address",
        )
    return _judged(name, found)


def _judged(name: str, found: Detected) -> Check:
    """A server that answered: known or not, and whether it shows how it accepts drafts."""
    engine = found.engine if found.version is None else f"{found.engine} {found.version}"
    if found.engine == "generic":
        return Check(
            name=name,
            status="note",
            detail=f"answers, and is no engine known here: {'; '.join(found.doubts)}",
            fix="it can be loaded and routed to; how drafting went stays unknown",
        )
    rule = found.adapter.rule(found.facts)
    if rule.seen == "lossy":
        return Check(
            name=name,
            status="note",
            detail=f"{engine}, lossy: {'; '.join(rule.findings)}",
            fix="start it with its exact acceptance; `specdecode load` refuses it as it is",
        )
    if rule.seen == "hidden":
        return Check(
            name=name,
            status="note",
            detail=f"{engine}; does not show how it accepts drafts",
            fix="audit what it emits: specdecode load … --token-ids, then specdecode audit",
        )
    return Check(name=name, status="ok", detail=f"{engine}; shows no lossy setting")
