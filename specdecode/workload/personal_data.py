"""Find what looks like personal data in a prompt.

Built to be quiet on arithmetic, dates and version numbers: numbers must carry the form of what
they claim to be, and check digits must hold. Names reserved for documentation (example.com,
192.0.2.0/24, 555-01xx) are nobody's and do not count.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator

_EMAIL = re.compile(r"[A-Za-z0-9._%+-]+@((?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,})")
_RESERVED_DOMAIN = re.compile(
    r"(?:^|\.)(?:example\.(?:com|org|net)|example|test|invalid|localhost)$", re.I
)
_INTERNATIONAL = re.compile(r"(?<![\w)+])\+[1-9][0-9]{0,2}(?:[ .-]?\(?[0-9]{1,5}\)?){2,6}(?![0-9])")
_NORTH_AMERICAN = re.compile(
    r"(?<![\w-])(?:\([0-9]{3}\) ?|[0-9]{3}[-.])[0-9]{3}[-.][0-9]{4}(?![\w-])"
)
_FICTIONAL = re.compile(r"55501[0-9]{2}$")
_IBAN = re.compile(r"\b[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b")
_CARD = re.compile(r"(?<![\w.,+*/=-])[3-6](?:[ -]?[0-9]){12,18}(?![\w]| *[*/=+×÷]|[.,][0-9])")
_IPV4 = re.compile(r"(?<![\w.])(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?![\w]|\.[0-9])")
_SOCIAL_SECURITY = re.compile(
    r"(?<![\w-])(?!000|666|9)[0-9]{3}-(?!00)[0-9]{2}-(?!0000)[0-9]{4}(?![\w-])"
)


def _digits(text: str) -> str:
    return re.sub(r"[^0-9]", "", text)


def luhn_holds(number: str) -> bool:
    """Whether the check digit of a card number is right (ISO/IEC 7812-1)."""
    total = 0
    for i, char in enumerate(reversed(number)):
        value = int(char) * (2 if i % 2 else 1)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


def iban_holds(iban: str) -> bool:
    """Whether the check digits of an IBAN are right (ISO 13616: 97-10 remainder 1)."""
    plain = iban.replace(" ", "")
    if not 15 <= len(plain) <= 34:
        return False
    return int("".join(str(int(c, 36)) for c in plain[4:] + plain[:4])) % 97 == 1


Matches = Iterator[re.Match[str]]


def _email(text: str) -> Matches:
    yield from (m for m in _EMAIL.finditer(text) if not _RESERVED_DOMAIN.search(m[1]))


def _phone(text: str) -> Matches:
    for pattern in (_INTERNATIONAL, _NORTH_AMERICAN):
        for match in pattern.finditer(text):
            number = _digits(match.group())
            if 9 <= len(number) <= 15 and not _FICTIONAL.search(number):
                yield match


def _iban(text: str) -> Matches:
    yield from (m for m in _IBAN.finditer(text) if iban_holds(m.group()))


def _card(text: str) -> Matches:
    for match in _CARD.finditer(text):
        number = _digits(match.group())
        if len(set(number)) > 1 and luhn_holds(number):
            yield match


def _ipv4(text: str) -> Matches:
    for match in _IPV4.finditer(text):
        try:
            if ipaddress.IPv4Address(match.group()).is_global:
                yield match
        except ValueError:
            continue


def _social_security(text: str) -> Matches:
    return _SOCIAL_SECURITY.finditer(text)


_FINDERS: dict[str, Callable[[str], Matches]] = {
    "email": _email,
    "phone": _phone,
    "iban": _iban,
    "card": _card,
    "ipv4": _ipv4,
    "social_security": _social_security,
}


def personal_data(text: str) -> list[str]:
    """Kinds of personal data found, each once; not the values, so that reports repeat none."""
    return [kind for kind, find in _FINDERS.items() if next(find(text), None) is not None]


def personal_spans(text: str) -> list[tuple[str, int, int]]:
    """Where it is: (kind, start, end) in order; finds that overlap are one, of the first's kind."""
    found = [(m.start(), m.end(), kind) for kind, find in _FINDERS.items() for m in find(text)]
    spans: list[tuple[str, int, int]] = []
    for start, end, kind in sorted(found):
        if spans and start < spans[-1][2]:
            first, begin, before = spans[-1]
            spans[-1] = (first, begin, max(end, before))
        else:
            spans.append((kind, start, end))
    return spans
