"""kill -9 of the process that carries a release up, at ten moments; the next one goes on."""

from __future__ import annotations

import multiprocessing
import threading

import pytest

from pipelines.flows.history import history_of
from pipelines.flows.options import AuditOptions
from pipelines.flows.records import Records
from tests.pipelines.climber import climb
from tests.pipelines.release_project import release_project
from tests.pipelines.releases import WAY_UP
from tests.tiny_models import write_tiny_model

pytestmark = pytest.mark.slow

MOST_RUNS = 30


class Killer:
    """Kills a process when its release asks the router for the n-th time, before or after.

    The router's answer is a moment that the process is known to wait for: killed before it, the
    change was not made; killed after it, the change was made and nobody was told.
    """

    def __init__(self, router, moments):
        self.router, self.moments = router, dict(moments)
        self.process, self.asked, self.killed = None, 0, 0
        self._handle, self._lock = router.handle, threading.Lock()

    def handle(self, method, token, body):
        with self._lock:
            self.asked += 1
            when = self.moments.pop(self.asked, None)
        if when == "before":
            self._kill()
            return 503, {}  # nobody reads it
        answer = self._handle(method, token, body)
        if when == "after":
            self._kill()
        return answer

    def _kill(self):
        self.process.kill()  # it never runs again, so it does not read what is answered from here
        self.killed += 1


def test_killed_at_ten_moments_it_ends_as_if_nothing_had_been(tmp_path):
    project = release_project(tmp_path, roles=())
    project.audit = AuditOptions(target=str(write_tiny_model(tmp_path / "target")))
    moments = {n: ("before", "after")[n // 2 % 2] for n in range(2, 22, 2)}
    killer = Killer(project.router, moments)
    project.router.handle = killer.handle
    options = tmp_path / "options.json"
    # A server that forks has the imports behind it; each process is killed for good all the same.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.pipelines.climber", "pyarrow.parquet"])
    ends = []
    with project.router.served() as url:
        options.write_text(project.options(url).model_dump_json(), encoding="utf-8")
        for _ in range(MOST_RUNS):
            killer.process = context.Process(target=climb, args=(str(options),))
            killer.process.start()
            killer.process.join(120)
            ends.append(killer.process.exitcode)
            if ends[-1] == 0:
                break
    project.spool.close()

    assert killer.killed == len(moments) == 10
    assert ends[-1] == 0
    assert ends.count(-9) == killer.killed
    assert project.router.went == WAY_UP
    journal = Records(tmp_path / "releases", project.plan, project.manifest_sha256).journal
    with journal.alone():
        history = history_of(journal.lines())
    assert (history.pending, history.promoted) == (None, True)
    done = [line.details["action"] for line in journal.lines() if line.event == "done"]
    assert done == [*["SetState"] * 4, "Promote"]
