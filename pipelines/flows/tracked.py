"""Looks at a release, shown in MLflow. A view must not hinder a release.

So a look is recorded beside the flow, which waits a few seconds for it and no longer, and whatever
fails is told and nothing else. A look that says what the last one said is left out for a while.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from pipelines.flows.look import Look
from pipelines.flows.options import ReleaseOptions, manifest_of
from specdecode.governance.ladder_facts import Place
from specdecode.governance.verdict import Verdict

EVERY_S, WAIT_S = 30.0, 10.0


class LookLog:
    """Records looks where the release's registry is.

    Args:
        options: of the release; without a registry nothing is recorded.
        logger: of the run.
        clock: seconds that never go back.
    """

    def __init__(
        self,
        options: ReleaseOptions,
        logger: logging.Logger | logging.LoggerAdapter[logging.Logger],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._options, self._logger, self._clock = options, logger, clock
        self._last: tuple[object, ...] = ()
        self._at = -float("inf")
        self._busy: threading.Thread | None = None

    def add(self, found: Look) -> None:
        """Records a look that has a verdict; not while the one before is still on its way."""
        verdict, place = found.verdict, found.place
        if self._options.registry is None or verdict is None or place is None:
            return
        act = type(found.action).__name__
        said = (place, verdict.status, act)
        if self._busy is not None and self._busy.is_alive():
            return
        if said == self._last and self._clock() < self._at + EVERY_S:
            return
        self._busy = threading.Thread(
            target=self._record, args=(verdict, place, act), name="mlflow", daemon=True
        )
        self._busy.start()
        self._busy.join(WAIT_S)
        if self._busy.is_alive():
            self._logger.warning("MLflow takes more than %.0f s for a look; going on", WAIT_S)
        self._last, self._at = said, self._clock()

    def _record(self, verdict: Verdict, place: Place, act: str) -> None:
        """Every call names its store and its run, so nothing of MLflow's lives in this thread."""
        registry = self._options.registry
        if registry is None:
            return
        try:
            # Imported here, so that an MLflow that cannot be loaded hinders nothing either.
            from pipelines.tracking.live import look_run
            from pipelines.tracking.store import URI, store_of
            from pipelines.tracking.write import record

            manifest = (
                verdict.manifest_sha256 or manifest_of(self._options.manifest)["manifest_sha256"]
            )
            content = look_run(verdict.to_json(), str(manifest), place.stage, place.step, act)
            store = store_of(Path.cwd(), {**os.environ, URI: registry.uri})
            record(store, content, experiment=verdict.plan_name)
        except Exception as error:  # noqa: BLE001 - drivers, servers, disks: each has its own
            self._logger.warning(
                "this look is not shown in MLflow: %s: %s", type(error).__name__, error
            )
