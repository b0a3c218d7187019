"""A digest of rows that depends on their content only, not on file, order or compression."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from specdecode.measurement.records import Record


def rows_sha256(records: Iterable[Record]) -> str:
    """SHA-256 over the rows' JSON lines, sorted."""
    digest = hashlib.sha256()
    for line in sorted(record.to_json_line() for record in records):
        digest.update(line.encode("utf-8") + b"\n")
    return digest.hexdigest()
