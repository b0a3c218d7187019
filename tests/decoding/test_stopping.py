"""Stop strings are found where the whole text, decoded at each token, would show them first."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders
from tokenizers.models import BPE, WordPiece
from tokenizers.pre_tokenizers import ByteLevel
from transformers import PreTrainedTokenizerFast

from specdecode.decoding.stopping import StopStrings

BYTES = sorted(ByteLevel.alphabet())
PIECES = (
    "ab",
    "ba",
    "c",
    " ",
    " a",
    ".",
    " .",
    "n't",
    " n't",
    "\u00e9",
    "\u65e5",
    "stop",
    "st",
    "op",
)


def _fast(tokenizer, **more):
    made = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **more)
    made.add_special_tokens({"additional_special_tokens": [AddedToken("<s1>", special=True)]})
    return made


def byte_level():
    tokenizer = Tokenizer(BPE({byte: index for index, byte in enumerate(BYTES)}, []))
    tokenizer.decoder = decoders.ByteLevel()
    return _fast(tokenizer)


def byte_fallback():
    """As of SentencePiece: pieces, a byte where there is none, blanks as \u2581."""
    names = [f"<0x{byte:02X}>" for byte in range(256)]
    names += [piece.replace(" ", "\u2581") for piece in PIECES]
    tokenizer = Tokenizer(BPE({n: i for i, n in enumerate(names)}, [], byte_fallback=True))
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("\u2581", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return _fast(tokenizer)


def word_pieces():
    names = ["[UNK]", *PIECES, "##ab", "##st", "##op", "##c", "##."]
    tokenizer = Tokenizer(WordPiece({n: i for i, n in enumerate(names)}, unk_token="[UNK]"))  # noqa: S106
    tokenizer.decoder = decoders.WordPiece()
    return _fast(tokenizer, clean_up_tokenization_spaces=True)


TOKENIZERS = {
    "byte-level": byte_level(),
    "byte-fallback": byte_fallback(),
    "word-pieces": word_pieces(),
}


def by_definition(tokenizer, stop, tokens):
    """Index of the token that completes a stop string, and where that begins in the text."""
    for count in range(1, len(tokens) + 1):
        text = tokenizer.decode(tokens[:count], skip_special_tokens=True)
        if found := [at for s in stop if (at := text.find(s)) >= 0]:
            return count, min(found)
    return None


def by_window(tokenizer, stop, tokens):
    looks = StopStrings(tokenizer, stop)
    for count in range(1, len(tokens) + 1):
        if (at := looks.first(tokens[:count])) is not None:
            return count, at
    return None


@st.composite
def _replies(draw, tokenizer):
    """Long ones, of few tokens each, so that strings recur; with characters in pieces."""
    ids = st.integers(0, len(tokenizer) - 1)
    few = draw(st.lists(ids, min_size=1, max_size=12))
    utf8 = st.text(alphabet="a\u00e9\u65e5\U0001f600. b", max_size=12).map(
        lambda text: list(text.encode())
    )
    if len(tokenizer) > 256:
        of_bytes = [tokenizer.convert_tokens_to_ids(n) for n in _byte_names(tokenizer)]
        runs = utf8.map(lambda values: [of_bytes[value] for value in values])
    else:
        runs = st.lists(st.sampled_from(few), max_size=12)
    parts = st.one_of(st.lists(st.sampled_from(few), min_size=1, max_size=40), runs)
    return list(itertools.chain(*draw(st.lists(parts, min_size=1, max_size=12))))


def _byte_names(tokenizer):
    if tokenizer.convert_tokens_to_ids("<0x00>") is not None:
        return [f"<0x{byte:02X}>" for byte in range(256)]
    one = {bytes([b]): c for b, c in _byte_characters().items()}
    return [one[bytes([byte])] for byte in range(256)]


def _byte_characters():
    """GPT-2's table of bytes and characters, by what its decoder makes of them."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [byte for byte in range(256) if byte not in printable]
    return {b: chr(b) for b in printable} | {b: chr(256 + i) for i, b in enumerate(rest)}


@pytest.mark.parametrize("name", list(TOKENIZERS))
@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_it_finds_what_the_whole_text_would_show_at_the_same_token(name, data):
    tokenizer = TOKENIZERS[name]
    tokens = data.draw(_replies(tokenizer))
    text = tokenizer.decode(tokens, skip_special_tokens=True)
    stop = [data.draw(st.text(alphabet="abc .\u00e9\u65e5stop", min_size=1, max_size=6))]
    if text:  # something that does occur, perhaps late
        begin = data.draw(st.integers(0, len(text) - 1))
        stop.append(text[begin : begin + data.draw(st.integers(1, 30))])

    assert by_window(tokenizer, stop, tokens) == by_definition(tokenizer, stop, tokens)


class Counting:
    """A tokenizer that counts the tokens it decodes."""

    def __init__(self, tokenizer):
        self.tokenizer, self.decoded = tokenizer, 0

    def decode(self, tokens, **options):
        self.decoded += len(tokens)
        return self.tokenizer.decode(tokens, **options)


@pytest.mark.parametrize("name", list(TOKENIZERS))
def test_the_work_grows_with_the_reply_and_not_with_its_square(name):
    tokenizer = TOKENIZERS[name]
    token = tokenizer.convert_tokens_to_ids("c")
    short, long = Counting(tokenizer), Counting(tokenizer)

    assert by_window(short, ["stop", "zz"], [token] * 1000) is None
    assert by_window(long, ["stop", "zz"], [token] * 4000) is None

    assert short.decoded < 1000 * 200
    assert long.decoded < 4.5 * short.decoded


def test_a_character_that_comes_in_pieces_does_not_hide_a_string():
    tokenizer = TOKENIZERS["byte-fallback"]
    first = tokenizer.convert_tokens_to_ids("<0x00>")
    tokens = [first + byte for byte in ("\u65e5" * 100 + "stop").encode()]

    assert by_window(tokenizer, ["\u65e5stop"], tokens) == (len(tokens), 99)
