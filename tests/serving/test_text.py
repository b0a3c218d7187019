"""Streamed text: the pieces add up to the reply's text, and nothing is taken back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from specdecode.serving.text import TextStream


class Bytes:
    """A tokenizer of one byte a token."""

    def decode(self, tokens, *, skip_special_tokens):
        assert skip_special_tokens
        return bytes(tokens).decode(errors="replace")


@st.composite
def streams(draw):
    """A text's bytes in pieces, and stop strings, some of which may be in it."""
    text = draw(st.text("abé€😀", max_size=20))
    stops = draw(st.lists(st.text("ab€", min_size=1, max_size=4), max_size=3))
    data = list(text.encode())
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=6)))
    ends = [*cuts, len(data)]
    return [data[a:b] for a, b in zip([0, *ends], ends, strict=False)], stops


@given(streams())
def test_pieces_add_up_to_the_text_before_the_first_stop_string(stream):
    pieces, stops = stream
    out, read = TextStream(Bytes(), stops), []
    sent = ""
    for piece in pieces:
        read += piece
        text = Bytes().decode(read, skip_special_tokens=True)
        found = [at for s in stops if (at := text.find(s)) >= 0]
        if found:  # the engine ends the reply here
            sent += out.finish(text[: min(found)])
            assert sent == text[: min(found)]
            return
        sent += out.add(piece)
        assert text.startswith(sent)
        assert "\ufffd" not in sent
    assert sent + out.finish(text) == text


def test_only_what_may_become_a_stop_string_is_held_back():
    out = TextStream(Bytes(), ["abc"])

    assert out.add(list(b"xxab")) == "xx"
    assert out.add(list(b"d")) == "abd"


def test_without_a_tokenizer_there_is_no_text():
    out = TextStream(None, [])

    assert out.add([1, 2]) == out.finish(None) == ""


class Tidy(Bytes):
    """Takes back a blank before a full stop."""

    def decode(self, tokens, *, skip_special_tokens):
        return super().decode(tokens, skip_special_tokens=skip_special_tokens).replace(" .", ".")


def test_a_decoder_that_takes_something_back_loses_no_text_behind_it():
    out = TextStream(Tidy(), [])

    sent = out.add(list(b"a ")) + out.add(list(b".")) + out.add(list(b"b"))

    assert sent == "a .b"
    assert sent + out.finish("a.bc") == "a .bc"


class Counting(Bytes):
    """Knows how many tokens it was given at most."""

    most = 0

    def decode(self, tokens, *, skip_special_tokens):
        self.most = max(self.most, len(tokens))
        return super().decode(tokens, skip_special_tokens=skip_special_tokens)


def test_a_long_reply_is_not_decoded_again_and_again():
    tokenizer = Counting()
    out, text = TextStream(tokenizer, ["never"]), "aé€😀 " * 200

    sent = "".join(out.add([byte]) for byte in text.encode())

    assert sent + out.finish(text) == text
    assert tokenizer.most <= 8


class Stripping(Bytes):
    """Drops the blank at the beginning, as SentencePiece's decoders do."""

    def decode(self, tokens, *, skip_special_tokens):
        return super().decode(tokens, skip_special_tokens=skip_special_tokens).removeprefix(" ")


@given(st.lists(st.text(" ab€", min_size=1, max_size=4), max_size=8))
def test_blanks_that_only_the_beginning_of_a_reply_loses_are_kept_elsewhere(words):
    data = "".join(words).encode()
    whole = Stripping().decode(data, skip_special_tokens=True)
    out = TextStream(Stripping(), [])

    sent = "".join(out.add(list(word.encode())) for word in words)

    assert whole.startswith(sent)
    assert sent + out.finish(whole) == whole
