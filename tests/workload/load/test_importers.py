"""Trace and prompt files: what is read, what is left out, and how errors name the place."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdecode.errors import ConfigError, PromptFileError
from specdecode.workload.load.importers import guess_format, json_stream, read_entries

AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
2023-11-16 18:15:51.0000000,12,0
"""
AZURE_2024 = """TIMESTAMP,ContextTokens,GeneratedTokens
2024-05-10 00:00:00.009930+00:00,2162,5
2024-05-10 00:00:00.017335+00:00,2399,6
"""
BURSTGPT = """Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type
5,ChatGPT,472,18,490,Conversation log
45.5,GPT-4,1087,0,1087,API log
118,ChatGPT,417,276,693,API log
"""
MOONCAKE = """{"timestamp": 0, "input_length": 700, "output_length": 52, "hash_ids": [46, 47]}

{"timestamp": 1500, "input_length": 8, "output_length": 1, "text_input": "exact words"}
"""
SHAREGPT = json.dumps(
    [
        {
            "id": "a/b",
            "conversations": [
                {"from": "human", "value": "first ]} question"},
                {"from": "gpt", "value": "answer"},
                {"from": "human", "value": "second"},
            ],
        },
        {"id": "c", "conversations": [{"from": "gpt", "value": "no question"}]},
        {
            "conversations": [
                {"role": "system", "content": "be brief"},
                {"role": "user", "content": "ünïcode"},
            ]
        },
    ]
)
SPEC_BENCH = '{"question_id": 81, "category": "writing", "turns": ["first", "second"]}\n'


@pytest.fixture
def read(tmp_path):
    """read(text, kind) -> (entries, skipped)."""

    def reading(text, kind="auto"):
        path = tmp_path / "file"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        skipped = Counter()
        return list(read_entries(path, kind, skipped)), skipped

    return reading


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (AZURE, "azure"),
        (BURSTGPT, "burstgpt"),
        (MOONCAKE, "mooncake"),
        (SHAREGPT, "sharegpt"),
        (SPEC_BENCH, "spec-bench"),
    ],
)
def test_a_format_is_known_by_how_the_file_begins(tmp_path, text, kind):
    (tmp_path / "file").write_text("\ufeff" + text if kind == "azure" else text)
    assert guess_format(tmp_path / "file") == kind


def test_azure_times_of_both_years(read):
    entries, skipped = read(AZURE)
    assert [(e.input_tokens, e.output_tokens) for e in entries] == [(374, 44), (396, 109)]
    assert entries[1].timestamp_s - entries[0].timestamp_s == pytest.approx(4.314579, abs=1e-5)
    assert sum(skipped.values()) == 1

    entries, _ = read(AZURE_2024)
    assert entries[1].timestamp_s - entries[0].timestamp_s == pytest.approx(0.007405, abs=1e-6)


def test_burstgpt_leaves_out_what_failed_then_and_counts_it(read):
    entries, skipped = read(BURSTGPT)
    assert [(e.timestamp_s, e.input_tokens, e.output_tokens) for e in entries] == [
        (5.0, 472, 18),
        (118.0, 417, 276),
    ]
    assert entries[0].category == "Conversation log"
    assert list(skipped.values()) == [1]


def test_mooncake_has_milliseconds_blocks_and_perhaps_text(read):
    entries, _ = read(MOONCAKE)
    assert entries[0].blocks == (46, 47)
    assert entries[1].timestamp_s == 1.5
    assert entries[1].prompt.text() == "exact words"


def test_sharegpt_gives_the_first_human_turn(read):
    entries, skipped = read(SHAREGPT)
    assert [e.prompt.user for e in entries] == ["first ]} question", "ünïcode"]
    assert [e.prompt.system for e in entries] == [None, "be brief"]
    assert sum(skipped.values()) == 2


def test_spec_bench_gives_first_turn_and_category(read):
    entries, _ = read(SPEC_BENCH)
    assert (entries[0].name, entries[0].category, entries[0].prompt.user) == (
        "81",
        "writing",
        "first",
    )


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("TIMESTAMP,ContextTokens\n1,2\n", "azure", "line 1, field 'GeneratedTokens'"),
        (AZURE + "soon,1,2\n", "azure", "line 5, field 'TIMESTAMP': is not a time"),
        (AZURE + "2023-11-16 18:16:00,1.5,2\n", "azure", "line 5, field 'ContextTokens'"),
        (AZURE + "2023-11-16 18:16:00,1\n", "azure", "line 5: does not have 3 cells"),
        (AZURE.encode() + b"\xff\xfe,1,2\n", "azure", "cannot be read as CSV"),
        (BURSTGPT + "-1,m,1,1,2,x\n", "burstgpt", "line 5, field 'Timestamp'"),
        (MOONCAKE + "{\n", "mooncake", "line 4: not valid JSON"),
        (MOONCAKE + "[]\n", "mooncake", "line 4: expected a JSON object"),
        ('{"timestamp": 1, "input_length": 1}', "mooncake", "line 1, field 'output_length'"),
        (
            '{"timestamp": 1, "input_length": true, "output_length": 1}',
            "mooncake",
            "field 'input_length'",
        ),
        (
            '{"timestamp": 1, "input_length": 1, "output_length": 1, "hash_ids": ["a"]}',
            "mooncake",
            "hash_ids",
        ),
        ("{}", "sharegpt", "must hold one JSON array"),
        (SHAREGPT[:-1], "sharegpt", "element 3 of the array: it is cut off"),
        (SHAREGPT[:-9], "sharegpt", "element 3 of the array"),
        ("[", "sharegpt", "ends after 0 elements"),
        ('[{"conversations": []} 3]', "sharegpt", "element 1"),
        ('[{"conversations": 3}]', "sharegpt", "element 1 has no list"),
        ('[{"conversations": [{"from": "human"}]}]', "sharegpt", "without the texts"),
        ("[3]", "sharegpt", "element 1: expected a JSON object"),
        ("[]", "sharegpt", "holds no request"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\n", "azure", "holds no request"),
        ("hello\n", "auto", "of no known format; name it"),
        (b"\xff\xfe\x00", "auto", "is not UTF-8"),
    ],
)
def test_a_bad_file_is_named_with_the_place(read, text, kind, message):
    with pytest.raises(PromptFileError, match=message) as found:
        read(text, kind)
    assert "file" in str(found.value)


def test_a_missing_file_and_an_unknown_format_say_so(tmp_path):
    with pytest.raises(PromptFileError, match="cannot be read"):
        list(read_entries(tmp_path / "none", "azure", Counter()))
    with pytest.raises(ConfigError, match="choose one of azure"):
        list(read_entries(tmp_path, "parquet", Counter()))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None)
@given(
    st.lists(st.dictionaries(st.text(max_size=5), json_values, max_size=4), max_size=12),
    st.integers(1, 40),
    st.sampled_from([None, 2]),
    st.booleans(),
)
def test_an_array_read_in_pieces_equals_the_array_read_at_once(
    tmp_path_factory, values, piece, indent, ascii_only
):
    path = tmp_path_factory.mktemp("array") / "a.json"
    path.write_text(json.dumps(values, indent=indent, ensure_ascii=ascii_only), encoding="utf-8")
    before = json_stream._READ
    json_stream._READ = piece
    try:
        assert [value for _, value in json_stream.json_array(path)] == values
    finally:
        json_stream._READ = before


def test_entries_come_before_the_file_is_read_to_its_end(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text(AZURE + "broken line\n")
    entries = read_entries(path, "azure", Counter())
    assert next(entries).input_tokens == 374  # the broken line is not reached yet
