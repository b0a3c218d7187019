"""Near-duplicates are found exactly, whatever the order of the prompts."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from specdecode.workload.similarity import clusters, jaccard_pairs, ngrams_of, shared_ngrams
from specdecode.workload.text import character_shingles, normalised, words
from tests.workload.examples import scrambled

SHORT = st.text(alphabet="abc ", min_size=1, max_size=12)


@given(
    texts=st.lists(SHORT, max_size=8),
    threshold=st.floats(min_value=0.05, max_value=1.0),
)
def test_prefix_filtering_finds_what_comparing_all_pairs_finds(
    texts: list[str], threshold: float
) -> None:
    named = {f"p{i}": text for i, text in enumerate(texts)}
    sets = {name: character_shingles(text) for name, text in named.items()}
    expected = {
        (a, b)
        for a, b in combinations(sorted(named), 2)
        if len(sets[a] & sets[b]) >= threshold * len(sets[a] | sets[b]) - 1e-9
    }

    assert jaccard_pairs(named, threshold) == expected


@given(st.lists(SHORT, max_size=8), st.randoms())
def test_clusters_do_not_depend_on_order(texts: list[str], random: object) -> None:
    named = [(f"p{i}", text) for i, text in enumerate(texts)]
    before = clusters(dict(named), jaccard=0.5)
    random.shuffle(named)  # type: ignore[attr-defined]

    assert clusters(dict(named), jaccard=0.5) == before


def test_rewordings_and_shared_passages_form_one_cluster() -> None:
    passage = scrambled("passage", 8) + " " + scrambled("more", 8)
    texts = {
        "a": "Please translate the following sentence into German: The cat sleeps.",
        "b": "please translate the following sentence into german: the cat sleeps!",
        "c": f"{passage} When was it?",
        "d": f"{scrambled('question', 3)} {passage}",
        "e": scrambled("unrelated"),
    }

    assert clusters(texts) == {"a": "a", "b": "a", "c": "c", "d": "c", "e": "e"}


def test_chains_of_neighbours_are_one_cluster() -> None:
    texts = {"a": "aaaaa bbbbb ccccc", "b": "bbbbb ccccc ddddd", "c": "ccccc ddddd eeeee"}

    assert set(clusters(texts, jaccard=0.3).values()) == {"a"}


def test_words_of_unspaced_scripts_are_characters() -> None:
    assert words("Tokyo は東京") == ["tokyo", "は", "東", "京"]
    assert normalised(" ＨＥＬＬＯ, World! ") == "hello world"


def test_shared_ngrams_counts_each_pair_once() -> None:
    base = " ".join(f"w{i}" for i in range(15))
    ngrams = ngrams_of({"a": base, "b": base + " tail", "c": "too short"})

    assert ngrams["c"] == frozenset()
    assert dict(shared_ngrams(ngrams)) == {("a", "b"): 3}
