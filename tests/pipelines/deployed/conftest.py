"""A real server, and `python -m pipelines.deployments apply` run against it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.settings import PREFECT_API_URL, temporary_settings

from tests.pipelines.prefect_server import Duty, Served, running_server, small_repository


@pytest.fixture(scope="module")
def duty() -> Iterator[Duty]:
    found = Duty()
    yield found
    found.leave()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, duty: Duty) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    root = small_repository(folder / "repository")
    variables = {
        "PREFECT_HOME": str(folder / "client"),
        "SPECDECODE_NOTIFY_URL": duty.url,
    }
    with running_server(folder) as url:
        yield Served(root, url, variables)


@pytest.fixture(scope="module")
def said(served: Served) -> list[str]:
    """What the first `apply` did."""
    return served.apply("--gpus", "2")


@pytest.fixture(scope="module")
def client(served: Served, said: list[str]) -> Iterator[SyncPrefectClient]:
    with temporary_settings({PREFECT_API_URL: served.url}), get_client(sync_client=True) as found:
        yield found
