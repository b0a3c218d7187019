"""Draft lengths by load: what is a list of them, and that a server does as it says."""

from __future__ import annotations

import json
import threading
import time

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdecode.errors import ConfigError
from specdecode.serving.lengths import DraftLengths
from specdecode.workload.sweep.recommend import schedule
from tests.serving.servers import serving, tiny_engine


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[]", "empty"),
        ("[[2, 4, 1]]", "begins at 2 where 1"),
        ("[[1, 4, 1], [6, 8, 0]]", "begins at 6 where 5"),
        ("[[1, 4, 1], [4, 8, 0]]", "begins at 4 where 5"),
        ("[[1, 4, -1]]", "is no"),
        ("[[1, 0, 1]]", "is no"),
        ("[[1, 4]]", "write"),
        ("[[1, 4, true]]", "write"),
        ("[[1, 4, 2.0]]", "write"),
        ("[1, 4, 2]", "write"),
        ("[[1, 4, 2", "no JSON"),
    ],
)
def test_what_is_no_list_of_lengths_is_refused(text, says):
    with pytest.raises(ConfigError, match=says):
        DraftLengths.read(text)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"nothing\.json cannot be read"):
        DraftLengths.read(str(tmp_path / "nothing.json"))


def test_a_file_is_read_like_its_text(tmp_path):
    (tmp_path / "lengths.json").write_text("[[1, 2, 3], [3, 9, 0]]")
    lengths = DraftLengths.read(str(tmp_path / "lengths.json"))

    assert lengths == DraftLengths.read("[[1, 2, 3], [3, 9, 0]]")
    assert [lengths.at(n) for n in (1, 2, 3, 9, 10, 1000)] == [3, 3, 0, 0, 0, 0]
    assert lengths.most == 3


@given(
    st.dictionaries(st.integers(1, 300), st.integers(0, 8), min_size=1, max_size=8),
    st.integers(0, 500),
)
def test_every_list_that_a_sweep_writes_is_one(by_load, more):
    most = max(by_load) + more
    lengths = DraftLengths.read(json.dumps(schedule(by_load, most)))

    assert all(lengths.at(load) == length for load, length in by_load.items())
    assert lengths.parts[-1][1] == most
    assert more == 0 or lengths.at(most) == 0
    neighbours = sorted(by_load)
    for load in range(1, max(by_load)):
        around = [
            by_load[m]
            for m in (
                max((m for m in neighbours if m <= load), default=None),
                min(m for m in neighbours if m >= load),
            )
            if m is not None
        ]
        assert lengths.at(load) == min(around)


def ask(server, tokens=24):
    body = {"prompt": "the cat sat", "ignore_eos": True, "max_tokens": tokens, "temperature": 0}
    told = httpx.post(server.url + "/v1/completions", json=body, timeout=60).json()["metrics"]
    return told["speculative_decoding"]


def drafted_by_rows(server, wanted):
    """Draft lengths that were asked of the drafter, by the number of replies in the step.

    Steps take their time until as many replies as `wanted` says are there at once.
    """
    seen: dict[int, set[int]] = {}
    batch = server.scheduler._batch
    step = batch.step

    def watched():
        rows = list(batch.requests)
        if not any(number >= wanted[0] for number in seen):
            time.sleep(0.05)
        before = [r.drafted for r in rows]
        room = [r.limit - len(r.output) - 1 for r in rows]
        added = step()
        for request, old, most in zip(rows, before, room, strict=True):
            if most >= 3:  # the reply's end cuts no draft
                seen.setdefault(len(rows), set()).add(request.drafted - old)
        return added

    batch.step = watched
    return seen


@pytest.mark.parametrize("guard", [False, True])
def test_the_length_follows_the_number_of_replies(engine_folder, guard):
    lengths = DraftLengths.read("[[1, 1, 3], [2, 2, 1], [3, 8, 0]]")
    with serving(tiny_engine(engine_folder), slots=4, guard=guard, draft_lengths=lengths) as server:
        told = httpx.get(server.url + "/server_info", timeout=60).json()
        assert told["draft_lengths"] == [[1, 1, 3], [2, 2, 1], [3, 8, 0]]
        wanted = [1]
        seen = drafted_by_rows(server, wanted)
        for clients in (1, 2, 3):
            wanted[0] = clients
            threads = [threading.Thread(target=ask, args=(server, 120)) for _ in range(clients)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    by_rows = {1: {3}, 2: {1}, 3: {0}}
    assert {1, 2} <= seen.keys() <= by_rows.keys()
    plain = {0} if guard else set()  # a tiny model's drafts do not pay, and it finds that out
    for rows, found in seen.items():
        assert by_rows[rows] <= found | plain
        assert found <= by_rows[rows] | plain


def test_the_guard_still_switches_to_plain_decoding(engine_folder):
    lengths = DraftLengths.read("[[1, 8, 2]]")
    with serving(tiny_engine(engine_folder), slots=1, draft_lengths=lengths) as server:
        server.service.scheduler._guard.costs.ratio = lambda _rows: 50.0
        drafted = [ask(server, 100) for _ in range(8)]
    assert drafted[0] is not None
    assert drafted[-1] is None


def test_replies_are_those_of_plain_decoding(engine_folder):
    body = {"prompt": "the cat sat", "ignore_eos": True, "max_tokens": 30, "temperature": 0}
    texts = []
    for lengths in ("[[1, 8, 3]]", "[[1, 8, 0]]"):
        given = DraftLengths.read(lengths)
        with serving(
            tiny_engine(engine_folder), slots=2, guard=False, draft_lengths=given
        ) as server:
            answer = httpx.post(server.url + "/v1/completions", json=body, timeout=60).json()
            texts.append(answer["choices"][0]["text"])
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    ("draft", "gamma", "says"),
    [
        ("self-int8", 2, "up to 3, but the engine drafts 2 at most"),
        (None, 4, "there is no draft"),
        ("self-int8", "adaptive", "not both"),
    ],
)
def test_lengths_that_the_engine_cannot_draft_are_refused(engine_folder, draft, gamma, says):
    lengths = DraftLengths.read("[[1, 1, 3]]")
    with (
        pytest.raises(ConfigError, match=says),
        serving(tiny_engine(engine_folder, draft, gamma=gamma), draft_lengths=lengths),
    ):
        pass


def test_a_draft_reads_no_prompts_where_the_load_lets_nobody_draft(engine_folder):
    lengths = DraftLengths.read("[[1, 1, 3], [2, 8, 0]]")
    with serving(tiny_engine(engine_folder), slots=4, draft_lengths=lengths) as server:
        read = []
        start = server.scheduler._batch.start

        def started(requests, *, draft_reads):
            read.append((server.scheduler.running, draft_reads))
            start(requests, draft_reads=draft_reads)

        server.scheduler._batch.start = started
        ask(server)
        drafted_by_rows(server, [2])  # steps take their time until both are there
        threads = [threading.Thread(target=ask, args=(server, 60)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)

    assert read[0] == (1, True)
    assert (2, False) in read
    assert all(told == (lengths.at(running) > 0) for running, told in read if running)
