"""Personal data is found, while arithmetic, dates and reserved examples are left alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdecode.workload.personal_data import iban_holds, luhn_holds, personal_data


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Write to maria.lopez@gmail.com today", "email"),
        ("Call +49 30 901820 now", "phone"),
        ("Call +44 (20) 7946 0958", "phone"),
        ("Call (212) 736-5000", "phone"),
        ("fax: 212-736-5000", "phone"),
        ("IBAN DE89 3704 0044 0532 0130 00", "iban"),
        ("pay to GB82WEST12345698765432", "iban"),
        ("card 4111 1111 1111 1111 please", "card"),
        ("card 5500-0000-0000-0004", "card"),
        ("server at 8.8.8.8:53", "ipv4"),
        ("SSN 123-45-6789", "social_security"),
    ],
)
def test_personal_data_is_found(text: str, kind: str) -> None:
    assert personal_data(text) == [kind]


@pytest.mark.parametrize(
    "text",
    [
        "What is 17 + 25?",
        "5 + 123456789 = ?",
        "(3)+123456789",
        "4111111111111111 * 2",
        "12345678901234567890 is a long number",
        "Compute 1234 5678 9012 3456",
        "0000 0000 0000 0000",
        "version 1.2.3.4.5 or v8.8.8.8",
        "192.0.2.7, 10.0.0.1, 127.0.0.1 and 999.1.1.1",
        "On 2024-05-17, at 12:30, 1,234,567 people",
        "ask anna@example.com or bob@mail.example.org or x@host.test",
        "Call 212-555-0123",
        "ISBN 978-3-16-148410-0",
        "DE00 3704 0044 0532 0130 00",
        "@decorator and a@b",
        "000-12-3456",
        "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]",
    ],
)
def test_look_alikes_are_left_alone(text: str) -> None:
    assert personal_data(text) == []


@given(st.text(alphabet="0123456789", min_size=12, max_size=18))
def test_luhn_accepts_exactly_one_check_digit(body: str) -> None:
    assert sum(luhn_holds(body + digit) for digit in "0123456789") == 1


def test_iban_check_digits_catch_a_swap() -> None:
    assert iban_holds("DE89 3704 0044 0532 0130 00")
    assert not iban_holds("DE98 3704 0044 0532 0130 00")
    assert not iban_holds("DE89")


@given(st.text())
def test_any_text_can_be_searched(text: str) -> None:
    assert isinstance(personal_data(text), list)
