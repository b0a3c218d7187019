"""What a decision over many rows takes: `python -m pipelines.bench.decide`.

The rows are made up and written to a temporary folder first; that is not measured. Then a process
of its own decides on the file by the shipped plan. Stated are seconds of its own clock, seconds of
processor time of all its processes, and the highest sum of their resident memory, which is read
every few hundredths of a second and counts shared pages once for each process.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.bench.many_rows import ARMS, write_rows
from pipelines.console import say

if TYPE_CHECKING:  # its import is part of what is measured
    from specdecode.governance import Plan

MANIFEST = "a" * 64
_EVERY_S = 0.02


def main() -> int:
    """Make rows, decide on them in another process, and print what that took as JSON."""
    parser = argparse.ArgumentParser(prog="python -m pipelines.bench.decide", description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000, help="default 10 million")
    parser.add_argument("--content", action="store_true", help="with token ids and text")
    parser.add_argument("--plan", type=Path, default=Path("plans/default.yaml"))
    parser.add_argument("--folder", type=Path, help="where to keep the rows; default: nowhere")
    parser.add_argument("--decide", nargs=2, help=argparse.SUPPRESS)  # file and digest
    options = parser.parse_args()
    if options.decide:
        sys.stdout.write(
            json.dumps(_decide(options.plan, Path(options.decide[0]), options.decide[1]))
        )
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.folder or Path(scratch)
        path = folder / f"rows-{options.rows}{'-content' if options.content else ''}.parquet"
        if not path.is_file():
            say(f"writing {path} …")
            write_rows(path, options.rows, manifest=MANIFEST, content=options.content)
        say("reading it once, for the digest that an audit names …")
        digest = _run(options.plan, path, "")["rows_sha256"]
        say("deciding …")
        found = _run(options.plan, path, digest)
    sys.stdout.write(json.dumps(found, indent=1) + "\n")
    return 0


def _decide(plan: Path, path: Path, digest: str) -> dict[str, Any]:
    """In the measured process: the verdict, and what it took."""
    start = time.perf_counter()
    from specdecode.governance import decide, load_plan

    imported = time.perf_counter()
    arms = {arm: {"verdict": "lossless", "tokens_read": 3000} for arm in ARMS}
    audit = {"alpha": 0.01, "rows_sha256": digest, "arms": arms}
    verdict = decide(_for_many(load_plan(plan)), path, audit)
    done = time.perf_counter()
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return {
        "status": verdict.status,
        "rows": verdict.rows,
        "prompts": verdict.prompts,
        "rows_sha256": verdict.rows_sha256,
        "import_s": round(imported - start, 2),
        "decide_s": round(done - imported, 2),
        "cpu_s": round(sum(u.ru_utime + u.ru_stime for u in used), 2),
        "file_mb": path.stat().st_size // 1_000_000,
    }


def _for_many(plan: Plan) -> Plan:
    """The same plan for as many prompts as there are; its n_max is of a real run."""
    stages = [stage.model_copy(update={"n_max": 10**9}) for stage in plan.stages]
    return plan.model_copy(update={"stages": stages})


def _run(plan: Path, path: Path, digest: str) -> dict[str, Any]:
    """Start the measured process and watch its memory."""
    load = os.getloadavg()[0]
    command = [sys.executable, "-m", __spec__.name, "--plan", str(plan)]
    with subprocess.Popen([*command, "--decide", str(path), digest], stdout=subprocess.PIPE) as run:
        peak = 0
        while run.poll() is None:
            peak = max(peak, sum(map(_resident, _family(run.pid))))
            time.sleep(_EVERY_S)
        said = run.stdout.read() if run.stdout else b""
    if run.returncode:
        raise SystemExit(run.returncode)
    found: dict[str, Any] = json.loads(said)
    cores = len(os.sched_getaffinity(0))
    return found | {"peak_rss_mb": peak // 1_000_000, "cores": cores, "load_before": round(load, 2)}


def _family(pid: int) -> list[int]:
    """A process and those it started."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return [pid]
    return [pid, *(one for child in children.split() for one in _family(int(child)))]


def _resident(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    raise SystemExit(main())
