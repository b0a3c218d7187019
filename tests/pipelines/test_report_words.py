"""Every language has every text, with the same values in it."""

from __future__ import annotations

import re
from pathlib import Path
from string import Formatter

import pytest

from pipelines.report import words as module
from pipelines.report.words import LANGUAGES, Words, words
from specdecode.errors import ConfigError

PACKAGE = Path(module.__file__).parent
TEMPLATE = PACKAGE.parents[1] / "reports/templates/evaluation.html.j2"
EN = words("en")
LITERAL = re.compile(r'\b(?:words|said|say)\(\s*"([a-zA-Z0-9_.]+)"')


def values_in(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name is not None}


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_key_is_missing_in_a_language(language):
    assert set(words(language).texts) == set(EN.texts)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_text_names_the_values_of_the_english_one_and_is_not_empty(language):
    for key, text in words(language).texts.items():
        assert text.strip(), key
        assert values_in(text) == values_in(EN.texts[key]), key


def test_texts_in_japanese_are_translated():
    kept = {key for key, text in words("ja").texts.items() if text == EN.texts[key]}
    names = {"outcome.go", "outcome.no_go", "outcome.inconclusive", "column.n", "rules.n"}
    assert kept <= names | {"tile.over_prompts", "effort.from_to"}


def test_every_key_the_code_names_is_in_the_catalogue():
    files = [*PACKAGE.rglob("*.py"), TEMPLATE]
    named = {key for file in files for key in LITERAL.findall(file.read_text(encoding="utf-8"))}
    plural = {key.rpartition(".")[0] for key in EN.texts if key.endswith(".many")}
    languages = set(LANGUAGES)  # `words("en")` asks for a catalogue and not for a text
    assert len(named) > 100
    assert named - languages <= set(EN.texts) | plural


def test_a_key_that_is_missing_is_an_error_and_not_an_empty_place():
    with pytest.raises(ConfigError, match="no text 'nothing'; add it to every language"):
        EN("nothing")


def test_a_value_that_is_not_given_is_named():
    with pytest.raises(ConfigError, match="'between' names 'high'"):
        EN("between", low="1")


def test_a_language_without_texts_is_refused():
    with pytest.raises(ConfigError, match="there are: en, ja"):
        words("xx")


def test_a_key_given_twice_is_refused(tmp_path, monkeypatch):
    folder = tmp_path / "twice"
    folder.mkdir()
    for name in ("one", "two"):
        (folder / f"{name}.yaml").write_text("arm: arm\n")
    monkeypatch.setattr(module, "FOLDER", tmp_path)
    with pytest.raises(ConfigError, match=r"two\.yaml: 'arm' is given twice"):
        words("twice")


def test_codes_nobody_foresaw_are_shown_as_they_are():
    assert EN.label("outcome", "perhaps") == "perhaps"
    assert words("ja").label("outcome", "pass") == "合格"


@pytest.mark.parametrize(("n", "text"), [(0, "0 seals"), (1, "1 seal"), (2, "2 seals")])
def test_numbers_of_things_agree_with_their_nouns(n, text):
    assert EN.count("effort.seals", n) == text


def test_open_intervals_are_said_so():
    said = Words("en", EN.texts)
    assert said.interval(None, 2.0) == "−∞ to 2.00"
    assert said.figures(None, None) == "–"
    assert said.figures(0.12345, 1234567.0) == "0.1235 to 1.235e+06"
