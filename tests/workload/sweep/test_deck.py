from __future__ import annotations

from pathlib import Path

from specdecode.workload.prompts import load_prompts
from specdecode.workload.sweep.deck import Deck
from specdecode.workload.sweep.spec import SweepSpec

PROMPTS = Path("eval_sets/prompts")


def test_what_is_dealt_can_be_read_again_whatever_it_holds(tmp_path):
    every = {prompt.text: prompt for prompt in load_prompts(PROMPTS)}
    spec = SweepSpec(
        concurrency=(len(every),), requests_per_client=1, rounds=1, prompts=PROMPTS, max_tokens=8
    )

    path = Deck(spec, lasting=False).of(tmp_path, 1, len(every))["prompts"]

    assert {prompt.text: prompt for prompt in load_prompts(path)} == every
