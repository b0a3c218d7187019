"""Canonical JSON against the values of RFC 8785, and its laws."""

from __future__ import annotations

import json
import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdecode.errors import ConfigError
from specdecode.governance.canonical import canonical_bytes, parse_canonical, sha256_hex

# RFC 8785, appendix B: IEEE 754 bits in hex, and their text.
NUMBERS = {
    "0000000000000000": "0",
    "8000000000000000": "0",
    "0000000000000001": "5e-324",
    "8000000000000001": "-5e-324",
    "7fefffffffffffff": "1.7976931348623157e+308",
    "ffefffffffffffff": "-1.7976931348623157e+308",
    "4340000000000000": "9007199254740992",
    "c340000000000000": "-9007199254740992",
    "4430000000000000": "295147905179352830000",
    "44b52d02c7e14af5": "9.999999999999997e+22",
    "44b52d02c7e14af6": "1e+23",
    "44b52d02c7e14af7": "1.0000000000000001e+23",
    "444b1ae4d6e2ef4e": "999999999999999700000",
    "444b1ae4d6e2ef4f": "999999999999999900000",
    "444b1ae4d6e2ef50": "1e+21",
    "3eb0c6f7a0b5ed8c": "9.999999999999997e-7",
    "3eb0c6f7a0b5ed8d": "0.000001",
    "41b3de4355555553": "333333333.3333332",
    "41b3de4355555554": "333333333.33333325",
    "41b3de4355555555": "333333333.3333333",
    "41b3de4355555556": "333333333.3333334",
    "41b3de4355555557": "333333333.33333343",
    "becbf647612f3696": "-0.0000033333333333333333",
    "43143ff3c1cb0959": "1424953923781206.2",
}

numbers = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**53), 2**53)
text = st.text(st.characters(exclude_categories=["Cs"]))
documents = st.recursive(
    st.none() | st.booleans() | numbers | text,
    lambda inner: st.lists(inner) | st.dictionaries(text, inner),
    max_leaves=20,
)


@pytest.mark.parametrize(("bits", "written"), NUMBERS.items())
def test_numbers_are_written_as_in_the_rfc(bits, written):
    value = struct.unpack(">d", bytes.fromhex(bits))[0]
    assert canonical_bytes(value) == written.encode()


def test_the_sample_of_the_rfc():
    # Section 3.2.2 (input) and 3.2.3 (output).
    document = json.loads(
        r"""{"numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
        "literals": [null, true, false]}"""
    )
    assert canonical_bytes(document).decode() == (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        r'"string":"€$\u000f\nA'
        r"""'B\"\\\\\"/"}"""
    )


def test_keys_are_sorted_by_utf16_code_units_as_in_the_rfc():
    # Section 3.2.3: the emoji's surrogates sort before U+FB33, its code point would not.
    keys = ["€", "\r", "\ufb33", "1", "😀", "\u0080", "ö"]
    found = canonical_bytes(dict.fromkeys(keys, 0)).decode()
    assert list(json.loads(found)) == ["\r", "1", "\u0080", "ö", "€", "😀", "\ufb33"]


@given(documents)
def test_reading_and_writing_again_changes_no_byte(document):
    written = canonical_bytes(document)
    assert json.loads(written, parse_int=float) == document
    assert parse_canonical(written) == document
    assert canonical_bytes(parse_canonical(written)) == written


@given(st.dictionaries(text, documents))
def test_the_order_of_keys_does_not_matter(document):
    turned = dict(reversed(document.items()))
    assert canonical_bytes(turned) == canonical_bytes(document)


@pytest.mark.parametrize(
    ("document", "where"),
    [
        ({"a": [math.nan]}, r"\$\.a\[0\]"),
        ({"a": math.inf}, r"\$\.a"),
        ([2**53 + 1], "2\\^53"),
        ([-(2**53) - 1], "2\\^53"),
        ({1: "a"}, "not a string"),
        ("\ud800", "surrogate"),
        ({"\ud800": 1}, "surrogate"),
        ({"a": b"bytes"}, "bytes has no JSON form"),
        ({"a": {1, 2}}, "set has no JSON form"),
    ],
)
def test_what_has_no_canonical_form_is_refused_and_named(document, where):
    with pytest.raises(ConfigError, match=where):
        canonical_bytes(document)


@pytest.mark.parametrize(
    "data",
    [
        b'{"a": 1}',
        b'{"b":1,"a":2}',
        b'{"a":1,"a":1}',
        b"1.0",
        b"-0",
        b"1E3",
        b'"\\u0041"',
        b'"\\/"',
        b"NaN",
        b"Infinity",
        b"9007199254740993",
        b'"\\ud800"',
        b"\xff",
        b"\xef\xbb\xbf1",
        b"",
        b"[" * 100_000,
        b"1" * 5_000,
    ],
)
def test_any_other_spelling_is_refused(data):
    with pytest.raises(ConfigError, match="not canonical JSON"):
        parse_canonical(data)


def test_sha256_is_lower_case_hex():
    # FIPS 180-2, appendix B.1.
    digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert sha256_hex(b"abc") == digest
