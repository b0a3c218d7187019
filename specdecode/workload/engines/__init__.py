"""Reads a running server: which engine it is, how drafting went, what else decides a release.

adapter.py       what every adapter can do
own.py, vllm.py, sglang.py, llama_cpp.py, tgi.py, tensorrt_llm.py, generic.py    one engine each
detect.py        which engine an address belongs to
server.py        asks over HTTP; errors.py, what can go wrong
facts.py         what a server answered; metrics_text.py, its metrics
speculation.py   counts of drafting, of one request or of a whole server
counters.py      differences of counters; interval.py, all of them at once
state.py         load, memory, version, options; rule.py, whether they keep the distribution
reconcile.py     do requests and server tell the same story?
unknown.py       a number, or why there is none

What each engine tells, where, and what it does not: docs/engines.md.
"""

from __future__ import annotations

from specdecode.workload.engines.adapter import Adapter, EngineName, error_of
from specdecode.workload.engines.detect import (
    ENGINES,
    Detected,
    adapter_of,
    all_paths,
    detect,
    recognise,
)
from specdecode.workload.engines.errors import (
    AccessDeniedError,
    LossyEngineError,
    NotOfferedError,
    OverloadedError,
    ProtocolError,
    ServerError,
    ServerTimeoutError,
    StatusError,
    UnreachableError,
    retry_after_s,
    status_error,
)
from specdecode.workload.engines.facts import Answer, Facts
from specdecode.workload.engines.interval import Interval
from specdecode.workload.engines.reconcile import differences
from specdecode.workload.engines.rule import AcceptanceRule
from specdecode.workload.engines.server import Server
from specdecode.workload.engines.speculation import AggregateSpeculation, RequestSpeculation
from specdecode.workload.engines.state import ServerState

__all__ = [
    "ENGINES",
    "AcceptanceRule",
    "AccessDeniedError",
    "Adapter",
    "AggregateSpeculation",
    "Answer",
    "Detected",
    "EngineName",
    "Facts",
    "Interval",
    "LossyEngineError",
    "NotOfferedError",
    "OverloadedError",
    "ProtocolError",
    "RequestSpeculation",
    "Server",
    "ServerError",
    "ServerState",
    "ServerTimeoutError",
    "StatusError",
    "UnreachableError",
    "adapter_of",
    "all_paths",
    "detect",
    "differences",
    "error_of",
    "recognise",
    "retry_after_s",
    "status_error",
]
