"""Groups of prompts that are nearly the same text, found exactly.

Two prompts are neighbours when their character shingles have a Jaccard index of at least
`jaccard`, or when at least `overlap` of the word 13-grams of one occur in the other (a shared
passage). A group is a connected set of neighbours.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

from specdecode.workload.text import character_shingles, word_ngrams, words

NGRAM_WORDS = 13
"""Length of the overlap search; the usual choice of contamination studies since GPT-3."""

Ngrams = frozenset[tuple[str, ...]]


def ngrams_of(texts: Mapping[str, str]) -> dict[str, Ngrams]:
    """Word 13-grams by prompt id; empty for texts with fewer words."""
    return {name: word_ngrams(words(text), NGRAM_WORDS) for name, text in texts.items()}


def jaccard_pairs(texts: Mapping[str, str], threshold: float) -> set[tuple[str, str]]:
    """All pairs with Jaccard index >= threshold, by prefix filtering.

    With the shingles of each set ordered from rare to common, two sets that reach the threshold
    share one among their first |x| - ceil(threshold |x|) + 1 (Chaudhuri, Ganti and Kaushik 2006),
    so only those are indexed. Every candidate is then compared exactly.
    """
    shingles = {name: character_shingles(text) for name, text in texts.items()}
    frequency = Counter(s for own in shingles.values() for s in own)
    index: defaultdict[str, list[str]] = defaultdict(list)
    pairs: set[tuple[str, str]] = set()
    for name in sorted(shingles):
        own = shingles[name]
        ordered = sorted(own, key=lambda s: (frequency[s], s))
        # The small allowance keeps rounding from dropping a pair that sits on the threshold.
        prefix = int(len(own) * (1 - threshold) + 1e-9) + 1
        candidates: set[str] = set()
        for shingle in ordered[:prefix]:
            candidates.update(index[shingle])
            index[shingle].append(name)
        for other in candidates:
            theirs = shingles[other]
            common = len(own & theirs)
            if common >= threshold * (len(own) + len(theirs) - common) - 1e-9:
                pairs.add((other, name))
    return pairs


def shared_ngrams(ngrams: Mapping[str, Ngrams]) -> Counter[tuple[str, str]]:
    """Number of common 13-grams of each pair that has any; each pair once, in id order."""
    holders: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for name in sorted(ngrams):
        for gram in ngrams[name]:
            holders[gram].append(name)
    common: Counter[tuple[str, str]] = Counter()
    for names in holders.values():
        for i, first in enumerate(names):
            for second in names[i + 1 :]:
                common[first, second] += 1
    return common


def clusters(
    texts: Mapping[str, str], *, jaccard: float = 0.7, overlap: float = 0.5
) -> dict[str, str]:
    """Group near-duplicates.

    Args:
        texts: text by prompt id.
        jaccard: least Jaccard index of neighbours.
        overlap: least share of 13-grams (of the prompt with fewer of them) that makes neighbours.

    Returns:
        Prompt id to cluster name; the name is the smallest id of the cluster. Independent of order.
    """
    parent = {name: name for name in texts}

    def root(name: str) -> str:
        while parent[name] != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    ngrams = ngrams_of(texts)
    pairs = jaccard_pairs(texts, jaccard)
    for (a, b), common in shared_ngrams(ngrams).items():
        if common >= overlap * min(len(ngrams[a]), len(ngrams[b])):
            pairs.add((a, b))
    for a, b in pairs:
        low, high = sorted((root(a), root(b)))
        parent[high] = low
    return {name: root(name) for name in texts}
