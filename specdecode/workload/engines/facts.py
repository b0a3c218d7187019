"""What a server answered when it was asked, and why it did not. Everything else reads from this.

Reading is apart from asking: an adapter is a pure function of these answers, so that it can be
tested against recorded ones, and an answer can be kept beside what was concluded from it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from specdecode.workload.engines.errors import ProtocolError, status_error
from specdecode.workload.engines.metrics_text import Scrape, parse_metrics
from specdecode.workload.engines.unknown import Unknown

METRICS = "/metrics"

MAX_DEPTH = 64
"""Deepest nesting that is read: whoever walks through an answer must not run out of stack."""


@dataclass(frozen=True)
class Answer:
    """One HTTP answer.

    Args:
        path: what was asked for.
        status: HTTP status.
        headers: names in lower case.
        body: all of it.
    """

    path: str
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def ok(self) -> bool:
        """Whether it is a success."""
        return 200 <= self.status < 300


@dataclass(frozen=True)
class Facts:
    """Answers of one server, all asked for at about the same time.

    Args:
        base_url: the server.
        at: when it was asked.
        answers: by path.
        failures: by path, why there was no answer at all.
    """

    base_url: str
    at: datetime
    answers: Mapping[str, Answer]
    failures: Mapping[str, str] = field(default_factory=dict)

    def parsed(self, path: str) -> Any | Unknown:
        """The JSON at a path."""
        if (why := self._why_not(path)) is not None:
            return Unknown(why)
        try:
            # JSON has no NaN and no infinity; as text they are no count and no exact setting.
            found = json.loads(self.answers[path].body, parse_constant=str)
        except (ValueError, RecursionError):
            return Unknown(f"{path} did not answer in JSON")
        if _deeper_than(MAX_DEPTH, found):
            return Unknown(f"{path} answered with JSON nested more than {MAX_DEPTH} deep")
        return found

    def object(self, path: str) -> Mapping[str, Any] | Unknown:
        """The JSON object at a path."""
        found = self.parsed(path)
        if isinstance(found, dict | Unknown):
            return found
        return Unknown(f"{path} answered with JSON that is no object")

    def first_object(self, *paths: str) -> Mapping[str, Any] | Unknown:
        """The JSON object at the first path that has one."""
        found: Mapping[str, Any] | Unknown = Unknown("nothing was asked")
        reasons = []
        for path in paths:
            found = self.object(path)
            if not isinstance(found, Unknown):
                return found
            reasons.append(found.reason)
        return Unknown("; ".join(reasons))

    @cached_property
    def metrics(self) -> Scrape | Unknown:
        """The server's metrics, where most engines have them."""
        return self._scrape(METRICS)

    def scrape(self, path: str) -> Scrape | Unknown:
        """The metrics at a path."""
        return self.metrics if path == METRICS else self._scrape(path)

    def _scrape(self, path: str) -> Scrape | Unknown:
        if (why := self._why_not(path)) is not None:
            return Unknown(why)
        text = self.answers[path].body.decode("utf-8", errors="replace")
        try:
            return parse_metrics(text, self.base_url + path)
        except ProtocolError as error:
            return Unknown(error.problem)

    def models(self) -> list[Mapping[str, Any]]:
        """The entries of `/v1/models`; none where the server does not list them."""
        found = self.object("/v1/models")
        entries = None if isinstance(found, Unknown) else found.get("data")
        return [e for e in entries if isinstance(e, dict)] if isinstance(entries, list) else []

    def owners(self) -> set[str]:
        """Who owns the models, by the server's own word."""
        return {m["owned_by"] for m in self.models() if isinstance(m.get("owned_by"), str)}

    def _why_not(self, path: str) -> str | None:
        if (answer := self.answers.get(path)) is None:
            return f"{path}: {self.failures.get(path, 'was not asked for')}"
        if not answer.ok:
            return f"{path}: {status_error('', answer.status, answer.body).problem}"
        return None


def _deeper_than(limit: int, value: Any) -> bool:
    level = [value]
    for _ in range(limit + 1):
        nested = [each for each in level if isinstance(each, dict | list)]
        level = [c for n in nested for c in (n.values() if isinstance(n, dict) else n)]
        if not level:
            return False
    return True
