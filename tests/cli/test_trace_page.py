"""docs/decoding.md explains a real trace: its numbers must obey the rule that it teaches."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "decoding.md").read_text(encoding="utf-8")
ROW = re.compile(
    r"^('.*?'|\".*?\")\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)\s+(kept|dropped)$", re.MULTILINE
)


def steps():
    """Per step: (q, p, coin, kept) of each draft token."""
    trace = PAGE.split("```text\n")[1].split("```")[0]
    return [
        [(float(q), float(p), float(u), word == "kept") for _, q, p, u, word in ROW.findall(step)]
        for step in trace.split("\nStep ")[1:]
    ]


def test_the_page_has_a_trace_with_every_case():
    shown = steps()
    kept = [sum(row[3] for row in step) for step in shown]

    assert len(shown) >= 4
    assert any(0 < k < len(step) for k, step in zip(kept, shown, strict=True))  # a rejection
    assert any(k == len(step) for k, step in zip(kept, shown, strict=True))  # a bonus token
    assert any(  # a token kept although its own coin fails: what block verification is about
        keep and coin >= min(1, p / q) for step in shown for q, p, coin, keep in step
    )


def test_the_kept_tokens_are_a_prefix_that_the_coins_allow():
    for step in steps():
        ratio, ratios = 1.0, []
        for q, p, _, _ in step:
            ratio = min(1, ratio * p / q)
            ratios.append(ratio)
        kept = sum(row[3] for row in step)
        assert [row[3] for row in step] == [True] * kept + [False] * (len(step) - kept)
        # h_i <= p_i with equality at the end of the block, and h_i = 1 where p_i = 1.
        if kept:
            assert step[kept - 1][2] < ratios[kept - 1]
        for place in range(kept, len(step)):
            if place == len(step) - 1 or ratios[place] == 1:
                assert step[place][2] >= ratios[place]


def test_the_tables_of_the_page_follow_from_its_trace():
    q, p = zip(*[(row[0], row[1]) for row in steps()[1]], strict=True)
    ratio, text = 1.0, []
    for i, (a, b) in enumerate(zip(p, q, strict=True), start=1):
        ratio = min(1, ratio * a / b)
        text.append((i, a / b, ratio))

    found = re.findall(r"^\| (\d) \| `.*?` \| ([\d.]+) \| ([\d.]+) \|", PAGE, re.MULTILINE)

    assert [int(i) for i, _, _ in found] == [1, 2, 3, 4]
    for (_, quotient, running), (_, stated, stated_running) in zip(text, found, strict=True):
        assert float(stated) == pytest.approx(quotient, abs=2e-3)
        assert float(stated_running) == pytest.approx(running, abs=2e-3)
