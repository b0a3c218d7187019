"""Prompt sets and how they are measured: load, check, split, compile, decode side by side.

prompts.py       the Prompt and its JSONL files
checkers/        does a reply answer its prompt?
similarity.py    groups of near-duplicates
split.py         development half and reserve
compile.py       the table that is checked and measured
sampling.py      named sampling settings and seeds
schedule.py      what is measured, in which order
offline.py       measure
sse.py           streams of events, byte by byte
engines/         what running servers tell: drafting, load, options
"""

from __future__ import annotations

from specdecode.workload.checkers import check
from specdecode.workload.prompts import Prompt, load_prompts

__all__ = ["Prompt", "check", "load_prompts"]
