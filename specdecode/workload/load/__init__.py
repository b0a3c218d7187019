"""Send load to any OpenAI-compatible server, and say honestly what came of it.

spec.py            everything that was asked of a run
arrivals.py        when requests are due
importers/         traces and prompt files
synthetic.py       prompts made to a length
salt.py            repeated prompts
sampling.py        how replies are drawn
plan.py            the requests, in order
exchange.py        one request and its stream; payload.py reads an event, faults.py names failures
engine.py          what the server says of itself
observation.py     raw times, and the latencies that follow from them
runner.py          sends the plan
journal.py         what survives a crash
saturation.py      did client and server keep up?
summary.py         all numbers, from distributions, goodput, window, cost, verdict
run.py             from spec to summary
"""

from __future__ import annotations

from specdecode.workload.load.engine import EngineSide
from specdecode.workload.load.run import LoadResult, recover, run_load
from specdecode.workload.load.spec import LoadSpec

__all__ = ["EngineSide", "LoadResult", "LoadSpec", "recover", "run_load"]
