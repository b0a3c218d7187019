"""Looks at a release, shown in MLflow. A view must not hinder a release.

So a look is first kept on disk (kept_looks.py) and then written beside the flow, which waits a few
seconds for that and no longer. Whatever fails, or takes longer, is told and nothing else: the look
stays on disk, and the next look of any flow with the same store brings it along.

A look that says what the last one said is left out for a while, but not the last look of a run.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from pipelines.flows.kept_looks import KeptLooks, keep_look, kept_looks
from pipelines.flows.look import Look
from pipelines.flows.options import ReleaseOptions

EVERY_S, WAIT_S = 30.0, 10.0


class LookLog:
    """Records the looks of one run where the release's registry is; closed at the run's end.

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
        self._kept = kept_looks(options)
        self._last: tuple[object, ...] = ()
        self._at = -float("inf")
        self._left_out: Look | None = None
        self._waits_until = -float("inf")
        self._writer: threading.Thread | None = None
        self._unseen = False
        """Whether something was kept that the writer may have missed."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:  # the look failed after it was kept, and nothing was waited for
            self._unseen = True
            self._waits_until = self._clock() + WAIT_S
        self.close()

    def add(self, found: Look) -> None:
        """Keeps a look that has a verdict, and writes what is kept, unless that is under way."""
        if self._kept is None:
            return
        now = self._clock()
        self._waits_until = now + WAIT_S
        if found.verdict is not None and found.place is not None:
            said = (found.place, found.verdict.status, type(found.action).__name__)
            if said == self._last and now < self._at + EVERY_S:
                self._left_out = found
                return
            self._keep(found)
            self._last, self._at = said, now
        if self._is_writing:
            self._unseen = True
        else:
            self._write(self._kept, WAIT_S)

    def close(self) -> None:
        """The run ends: what is kept is written, as far as the time of its last look allows."""
        if self._kept is None:
            return
        if self._left_out is not None:
            self._keep(self._left_out)
            self._unseen = True
        if self._is_writing:
            self._wait(self._waits_until - self._clock())
        if self._unseen and not self._is_writing:
            self._write(self._kept, self._waits_until - self._clock())
        if waiting := self._waiting(self._kept):
            self._logger.warning(
                "MLflow does not show yet what the last looks at %d steps came to; they are kept "
                "in %s, and the next look of any flow with this registry brings them along",
                waiting,
                self._kept.folder,
            )

    def _keep(self, found: Look) -> None:
        self._left_out = None
        if found.place is None or found.verdict is None:
            return
        try:
            keep_look(self._options, found.place, type(found.action).__name__, found.verdict)
        except Exception as error:  # noqa: BLE001 - whatever it is, the release goes on
            self._warn("this look is not shown in MLflow, and cannot be kept for it", error)

    @property
    def _is_writing(self) -> bool:
        return self._writer is not None and self._writer.is_alive()

    def _write(self, kept: KeptLooks, wait_s: float) -> None:
        self._unseen = False
        if not self._waiting(kept):
            return
        self._writer = threading.Thread(
            target=self._record, args=(kept,), name="mlflow", daemon=True
        )
        self._writer.start()
        self._wait(wait_s)
        if self._is_writing:
            self._logger.warning("MLflow takes more than %.0f s for a look; going on", WAIT_S)

    def _wait(self, seconds: float) -> None:
        if self._writer is not None:
            self._writer.join(max(0.0, seconds))

    def _waiting(self, kept: KeptLooks) -> int:
        try:
            return len(kept)
        except OSError as error:
            self._warn("looks kept for MLflow cannot be listed", error)
            return 0

    def _record(self, kept: KeptLooks) -> None:
        """Every call names its store and its run, so nothing of MLflow's lives in this thread."""
        stuck: set[str] = set()
        try:
            # Imported here, so that an MLflow that cannot be loaded hinders nothing either.
            from pipelines.tracking.live import look_run
            from pipelines.tracking.store import URI, store_of
            from pipelines.tracking.write import record

            store = store_of(Path.cwd(), {**os.environ, URI: kept.uri})
            with kept.writing():
                while (look := kept.next(stuck)) is not None:
                    about = (look.manifest, look.stage, look.step, look.act)
                    content = look_run(look.verdict, *about, look.earlier)
                    try:
                        record(store, content, experiment=str(look.verdict["plan_name"]))
                    except Exception as error:  # noqa: BLE001 - as below; of other releases it is
                        stuck.add(look.manifest)  # no matter, and of this one all stay in order
                        self._warn(f"{look.path.stem}: this look is not shown in MLflow", error)
                    else:
                        kept.done(look)
        except Exception as error:  # noqa: BLE001 - drivers, servers, disks: each has its own
            self._warn("looks are not shown in MLflow", error)

    def _warn(self, what: str, error: Exception) -> None:
        self._logger.warning("%s: %s: %s", what, type(error).__name__, error)
