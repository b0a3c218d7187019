"""Sets up a Prefect server for this repository.

    export PREFECT_API_URL=http://127.0.0.1:4200/api
    python -m pipelines.deployments apply

Exit status: 0 done, 1 Prefect refused or cannot be reached, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.exceptions import PrefectException

from pipelines.console import say
from pipelines.deployments.automations import apply_automations
from pipelines.deployments.deployed import apply_deployments
from pipelines.deployments.pools import apply_limits, apply_pools
from pipelines.deployments.settings import API_URL, NOTIFY_URL, Settings, settings_for
from pipelines.deployments.webhook import apply_webhook, webhook_id
from specdecode.errors import UserError


def apply(client: SyncPrefectClient, settings: Settings) -> Iterator[str]:
    """Brings the server to its state and yields what was changed, in the order of its doing."""
    yield from apply_pools(client, settings)
    yield from apply_limits(client, settings)
    yield from apply_deployments(client, settings)
    yield from apply_webhook(client, settings)
    yield from apply_automations(client, settings, webhook_id(client))


def main(argv: list[str] | None = None) -> int:
    """Parses the command line."""
    parser = argparse.ArgumentParser(prog="python -m pipelines.deployments", description=__doc__)
    parser.add_argument("action", choices=("apply",), help="bring the server to its state")
    parser.add_argument(
        "--infrastructure",
        choices=("process", "kubernetes"),
        default="process",
        help="what a worker starts for a run",
    )
    parser.add_argument(
        "--working-directory",
        type=Path,
        help="the repository as a flow sees it; by default where you are",
    )
    parser.add_argument(
        "--gpus", type=int, help="runs that may hold a GPU at a time; by default this machine's"
    )
    arguments = parser.parse_args(argv)
    try:
        settings = settings_for(
            Path.cwd(),
            infrastructure=arguments.infrastructure,
            working_directory=arguments.working_directory,
            gpus=arguments.gpus,
        )
        with get_client(sync_client=True) as client:
            changed = 0
            for change in apply(client, settings):
                say(change)
                changed += 1
            told = webhook_id(client) is not None
    except UserError as error:
        say(f"error: {error}")
        return 2
    except httpx.TransportError as error:
        say(
            f"error: no Prefect server answers at {os.environ[API_URL]} ({error}): start it with "
            f"`prefect server start`, or correct {API_URL}. What was not told above was not done"
        )
        return 1
    except (PrefectException, httpx.HTTPError, RuntimeError) as error:
        say(f"error: {error}")
        return 1
    if not changed:
        say("Everything is as it should be.")
    if not told:
        say(f"Nobody is told of verdicts and crashes: set {NOTIFY_URL} and apply again.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
