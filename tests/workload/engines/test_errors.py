"""How long a server asks to wait."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from specdecode.workload.engines import retry_after_s, status_error

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, None),
        ("7", 7.0),
        (" 0 ", 0.0),
        ("Thu, 01 Jan 2026 12:01:00 GMT", 60.0),
        ("Thu, 01 Jan 2026 11:00:00 GMT", 0.0),
        ("Thu, 01 Jan 2026 13:01:00 +0100", 60.0),
        ("soon", None),
        ("-1", None),
        ("1.5", None),
        ("٣", None),
        ("9" * 400, None),
        ("", None),
    ],
)
def test_retry_after(header, expected):
    assert retry_after_s(header, NOW) == expected


def test_a_long_answer_is_shown_in_part():
    assert len(str(status_error("http://h/x", 500, b"x" * 10_000))) < 300


def test_bytes_that_are_no_text_are_shown_as_well():
    assert "HTTP status 500" in str(status_error("http://h/x", 500, b"\xff\xfe"))
