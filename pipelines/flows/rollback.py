"""Flow `rollback`: users get plain decoding again. Run by a person, or by an automation.

It needs no verdict, no plan that is in order and no journal. It first turns the router off, again
and again until it is, and writes down what it did after that.
"""

from __future__ import annotations

from typing import Any

from prefect import flow, get_run_logger

from pipelines.flows.assembling import LazyRegistry
from pipelines.flows.history import history_of
from pipelines.flows.journal import AnotherRunError
from pipelines.flows.options import (
    ReleaseOptions,
    manifest_of,
    options_of,
    token_of,
)
from pipelines.flows.records import Records
from pipelines.flows.router_client import RouterClient
from pipelines.flows.taking_back import TakenBack, take_back
from specdecode.governance.ladder_facts import Place
from specdecode.governance.plan import load_plan
from specdecode.rollout.state import STAGE_OF

BY = "flow rollback"
NOTHING = (None, "", "None", "unknown")
"""How an automation spells that it knows no manifest."""


@flow(name="rollback", persist_result=False, retries=3, retry_delay_seconds=5)
def rollback(
    manifest_sha256: str | None = None,
    reason: str = "a person asked for it",
    as_of: int | None = None,
    patience_s: float = 120.0,
    release: ReleaseOptions | None = None,
) -> dict[str, Any]:
    """Turns the router off.

    Args:
        manifest_sha256: of the release to be taken back; another one under way is left alone.
            None: whatever is there.
        reason: why.
        as_of: version of the state that called for this; a person's newer decision stands. None:
            only the manifest tells.
        patience_s: for how long a router that does not answer is asked again.
        release: what was released; None: as the file says that SPECDECODE_RELEASE names.

    Returns:
        {"changed": …, "mode": …, "version": …, "newer": …}: `newer` is why it was left as it is.

    Raises:
        RouterUnreachableError: it did not answer for that long; users may still have the candidate.
    """
    options = options_of(release)
    logger = get_run_logger()
    with RouterClient(options.router, token_of(options)) as router:
        before = None if manifest_sha256 in NOTHING else manifest_sha256
        found = take_back(
            router,
            manifest_sha256=before,
            by=BY,
            reason=" ".join(reason.split()),
            as_of=as_of,
            patience_s=patience_s,
        )
    logger.info("the router is at %s, version %d", found.state.mode, found.state.version)
    if found.newer is not None:
        logger.warning("left as it is: %s", found.newer)
    else:
        _write_down(options, found, reason)
    return {
        "changed": found.changed,
        "mode": found.state.mode,
        "version": found.state.version,
        "newer": found.newer,
    }


def _write_down(options: ReleaseOptions, found: TakenBack, reason: str) -> None:
    """The journal and the registry, if it was this release that was taken back."""
    digest = str(manifest_of(options.manifest)["manifest_sha256"])
    if found.state.manifest_sha256 != digest:
        return
    if options.registry is not None:
        LazyRegistry(options.registry, digest).demote(reason)
    records = Records(options.records, load_plan(options.plan), digest)
    key = records.key(Place(STAGE_OF["full"]))
    line = {"action": "RollBack", "reason": f"{BY}: {reason}", "owner": BY}
    try:
        with records.journal.alone():
            if history_of(records.journal.lines()).closed is not None:
                return  # a flow took it back, and said why
            records.journal.write("decided", key, **line)
            records.journal.write("done", key, **line, version=found.state.version, newer=None)
            records.journal.write("told", key, action="RollBack")
    except AnotherRunError as error:
        # The router's state says so too, and the next look of whoever it is will see that.
        get_run_logger().info("not written into the journal: %s", error)
