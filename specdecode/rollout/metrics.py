"""Prometheus metrics of a router. What users got is counted here, whatever the mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric

Outcome = Literal["ok", "client_error", "failed", "cut", "cancelled"]

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class RouterMetrics:
    """Counts what a router does.

    Args:
        numbers: present numbers by name, read whenever somebody asks.
    """

    def __init__(self, numbers: Callable[[], Mapping[str, float]]) -> None:
        self._registry = CollectorRegistry()
        self._series: dict[tuple[Any, tuple[str, ...]], Any] = {}
        self._requests = Counter(
            "specdecode:router_requests",
            "Replies by the arm that gave them: ok, client_error (4xx), failed (no reply, 5xx), "
            "cut (broken off after it began), cancelled (the client left).",
            ["arm", "outcome"],
            registry=self._registry,
        )
        self._retried = self._counter(
            "retried", "Requests that the candidate failed and the baseline answered."
        )
        self._spilled = self._counter(
            "spilled",
            "Requests that the candidate's limits sent to the baseline.",
            "why",
        )
        self._asked_again = self._counter(
            "asked_again", "Requests sent once more because an idle connection was closed.", "arm"
        )
        self._bookkeeping = self._counter(
            "bookkeeping_errors", "Failures of the router's own records; users saw none.", "where"
        )
        self._refused = self._counter("refused", "Requests the router itself refused.", "status")
        self._first_byte = Histogram(
            "specdecode:router_first_byte_seconds",
            "From sending a request to the first byte of its reply.",
            ["arm"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._in_flight = Gauge(
            "specdecode:router_in_flight", "Requests being answered.", ["arm"],
            registry=self._registry,
        )  # fmt: skip
        self._registry.register(_Present(numbers))

    def answered(self, arm: str, outcome: Outcome) -> None:
        """A request got its reply, or lost it."""
        self._of(self._requests, arm, outcome).inc()

    def first_byte(self, arm: str, seconds: float) -> None:
        """A reply began."""
        self._of(self._first_byte, arm).observe(seconds)

    def in_flight(self, arm: str, change: int) -> None:
        """A request began (1) or ended (-1)."""
        self._of(self._in_flight, arm).inc(change)

    def retried(self) -> None:
        """The baseline answered in the candidate's place."""
        self._retried.inc()

    def spilled(self, why: str) -> None:
        """A request went to the baseline because the candidate's limits were reached."""
        self._spilled.labels(why).inc()

    def asked_again(self, arm: str) -> None:
        """An idle connection turned out to be closed."""
        self._asked_again.labels(arm).inc()

    def bookkeeping_failed(self, where: str) -> None:
        """The router could not do its own work."""
        self._bookkeeping.labels(where).inc()

    def refused(self, status: int) -> None:
        """The router answered with an error of its own."""
        self._refused.labels(str(status)).inc()

    def text(self) -> bytes:
        """Everything, in Prometheus' text format."""
        return generate_latest(self._registry)

    def _of(self, family: Any, *labels: str) -> Any:
        """One series; looking it up by its labels costs more than counting."""
        key = (family, labels)
        found = self._series.get(key)
        if found is None:
            found = self._series[key] = family.labels(*labels)
        return found

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"specdecode:router_{name}", text, labels, registry=self._registry)


class _Present:
    """Numbers that others keep."""

    def __init__(self, numbers: Callable[[], Mapping[str, float]]) -> None:
        self._numbers = numbers

    def collect(self) -> Iterator[Metric]:
        for name, value in self._numbers().items():
            yield GaugeMetricFamily(f"specdecode:router_{name}", name.replace("_", " "), value)


def numbers_of(prefix: str, counts: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a document, nested ones by their whole path."""
    found: dict[str, float] = {}
    for name, value in counts.items():
        path = f"{prefix}_{name}"
        if isinstance(value, Mapping):
            found |= numbers_of(path, value)
        elif isinstance(value, int | float):
            found[path] = float(value)
    return found
