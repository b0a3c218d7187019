"""Prometheus metrics of a server, by name and labels.

Reads the text exposition format with the parser of `prometheus_client` and refuses what that lets
through: a series that occurs twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from specdecode.workload.engines.errors import ProtocolError
from specdecode.workload.engines.unknown import Count, Unknown, count

Labels = tuple[tuple[str, str], ...]
"""Names and values, sorted."""

PROCESS_START = "process_start_time_seconds"
_COUNTS = ("counter", "untyped", "unknown")
_PARTS_THAT_COUNT = ("_sum", "_count", "_bucket")


@dataclass(frozen=True)
class Scrape:
    """What one reading of a server's metrics said.

    Args:
        series: value of each sample, by its full name and its labels.
        types: Prometheus type by sample name, "untyped" where the text did not say.
        empty: counters that the text declares without a series: nothing was counted yet.
    """

    series: Mapping[str, Mapping[Labels, float]]
    types: Mapping[str, str]
    empty: frozenset[str] = frozenset()

    def __contains__(self, name: str) -> bool:
        return name in self.series

    def starting_with(self, prefix: str) -> Iterator[str]:
        """Names of samples that begin so."""
        return (name for name in self.series if name.startswith(prefix))

    def counter(self, name: str) -> str | None:
        """The sample of a counter, whose name may be written with or without `_total`.

        The sums and counts of a histogram are counters too. Only exact names count: `_created`
        gauges and longer names share the beginning.
        """
        stem = name.removesuffix("_total")
        for candidate in (f"{stem}_total", stem):
            kind = self.types.get(candidate)
            of_histogram = kind in ("histogram", "summary")
            if kind in _COUNTS or (of_histogram and candidate.endswith(_PARTS_THAT_COUNT)):
                return candidate
        return None

    def at_zero(self, name: str) -> bool:
        """Whether a counter is declared but has counted nothing yet."""
        return name.removesuffix("_total") in self.empty

    def total(self, *names: str) -> Count:
        """A counter, summed over its labels; the first of the names that is there."""
        for name in names:
            if (found := self.counter(name)) is not None:
                return count(sum(self.series[found].values()), found)
        return Unknown(f"no metric {' or '.join(names)}")

    def gauge(self, *names: str) -> Mapping[Labels, float] | Unknown:
        """The series of a gauge; the first of the names that is there."""
        for name in names:
            if name in self.series:
                return self.series[name]
        return Unknown(f"no metric {' or '.join(names)}")

    def labels(self, name: str) -> list[dict[str, str]]:
        """Labels of every series of a name: how servers show their configuration."""
        return [dict(labels) for labels in self.series.get(name, {})]


def parse_metrics(text: str, where: str = "metrics") -> Scrape:
    """Read the text exposition format.

    Args:
        text: as the server sent it.
        where: the address, for messages.

    Raises:
        ProtocolError: a line is malformed or a series occurs twice; the message shows it.
    """
    series: dict[str, dict[Labels, float]] = {}
    types: dict[str, str] = {}
    empty: set[str] = set()
    try:
        for family in text_string_to_metric_families(text):
            if family.type == "counter" and not family.samples:
                empty.add(family.name)
            for sample in family.samples:
                labels = tuple(sorted(sample.labels.items()))
                of_name = series.setdefault(sample.name, {})
                if labels in of_name:
                    raise ProtocolError(
                        where, f"{sample.name}{dict(labels)} occurs twice; one of the two is wrong"
                    )
                of_name[labels] = float(sample.value)
                types[sample.name] = "untyped" if family.type == "unknown" else family.type
    except (ValueError, IndexError, OverflowError) as error:
        raise ProtocolError(
            where, f"not in the text format of Prometheus ({error}); is this the metrics address?"
        ) from error
    return Scrape(series, types, frozenset(empty))
