"""MLflow's own pages in a real browser: the list of verdicts, a release, and arms side by side.

What the pages say is checked. The pictures go to a folder that SPECDECODE_PICTURES names, which is
how those in docs/images were made (docs/mlflow.md).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pipelines.ports import free_ports
from pipelines.report.browser import Page, browser
from pipelines.report.screenshot import BROWSERS
from pipelines.tracking import record, store_of
from pipelines.tracking.candidates import register
from pipelines.tracking.evaluation import release_run
from pipelines.tracking.plans import plans_in
from pipelines.tracking.view import EVIDENCE, address, run_address
from pipelines.ui import command
from tests.pipelines.tracking_data import evaluation, workspace

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        not any(shutil.which(name) for name in BROWSERS),
        reason=f"no browser ({', '.join(BROWSERS)}); Debian: apt install chromium",
    ),
]

STATUSES = ("NO_GO", "GO", "INVALID", "INCONCLUSIVE")
PATIENCE_S = 180.0
"""MLflow's pages load megabytes of script; on a busy machine that takes a while."""


@dataclass(frozen=True)
class Pages:
    """A server on a store with one release of each verdict, and a browser.

    Attributes:
        page: the browser's.
        base: address of the server.
        experiment: of the plan.
        releases: run id by verdict.
    """

    page: Page
    base: str
    experiment: str
    releases: dict[str, str]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    folder = tmp_path_factory.mktemp("store")
    store = store_of(folder, environ={})
    releases = {}
    for status in STATUSES:
        found = evaluation(status, status, draft=status)
        with tempfile.TemporaryDirectory() as made:
            files = workspace(Path(made), found)
            artifacts = [files / "reports/evaluation.html", files / "data/rows.parquet"]
            ids = record(store, release_run(found, artifacts), experiment="a plan")
        register(store, found, ids["release/offline"])
        releases[status] = ids["release"]
    ((_, experiment),) = plans_in(store.uri)
    (port,) = free_ports()
    base = f"http://127.0.0.1:{port}"
    with subprocess.Popen(
        command(store.uri, port), cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as server:
        try:
            _wait_until_up(base, server)
            with browser(1500, 900) as page:
                # As after the first visit: MLflow's chat window would cover a quarter of the page.
                page.remember(**{"mlflow.assistant.fab.autoOpenedOnFirstLoad_v1": True})
                yield Pages(page, base, experiment, releases)
        finally:
            server.terminate()


def test_the_link_opens_on_releases_sorted_by_verdict_with_what_decides(pages: Pages) -> None:
    pages.page.open(address(pages.base, pages.experiment))

    said = pages.page.wait_for(*STATUSES, "gate.speed_ratio.low", seconds=PATIENCE_S)
    _keep(pages.page, "mlflow-verdicts.png")
    cells = pages.page.evaluate(
        "[...document.querySelectorAll('[role=row] [col-id=\"tags.`gate.verdict`\"]')]"
        ".map(cell => cell.innerText.trim()).filter(text => !text.includes('gate'))"
    )
    assert cells == sorted(STATUSES)
    assert "4 matching runs" in said
    for column in ("gate.stage", "gate.quality_difference.low", "audit.e_value", "prompts"):
        assert column in said


def test_a_release_shows_its_verdict_in_words_its_digests_and_its_stage(pages: Pages) -> None:
    pages.page.open(run_address(pages.base, pages.experiment, pages.releases["NO_GO"]))

    said = pages.page.wait_for("Child runs", "offline", "What would change it", seconds=PATIENCE_S)
    pages.page.evaluate(
        "[...document.querySelectorAll('h2')].find(h => h.innerText == 'NO_GO')?.scrollIntoView()"
    )
    _keep(pages.page, "mlflow-release.png")
    assert "NO_GO" in said
    assert "speed ratio to the baseline 1.02" in said
    assert "gate.verdict" in said


def test_arms_side_by_side_show_the_evidence_and_its_limit(pages: Pages) -> None:
    pages.page.open(address(pages.base, pages.experiment, EVIDENCE))

    said = pages.page.wait_for(
        "audit.log_e_value vs audit.log_limit", "block (audit.log_limit)", seconds=PATIENCE_S
    )
    _keep(pages.page, "mlflow-arms.png", settle_s=10)
    assert "token" in said
    assert "12 matching runs" in said


def _keep(page: Page, name: str, settle_s: float = 3.0) -> None:
    if folder := os.environ.get("SPECDECODE_PICTURES"):
        page.settle(settle_s)
        page.picture(Path(folder) / name)


def _wait_until_up(base: str, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        assert server.poll() is None, "the server ended"
        try:
            with urllib.request.urlopen(f"{base}/health", timeout=5):  # noqa: S310 - loopback
                return
        except OSError:
            time.sleep(0.3)
    raise AssertionError("the server did not start")
