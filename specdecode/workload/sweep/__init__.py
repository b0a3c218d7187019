"""At which load does drafting stop to pay, and how many tokens should be drafted at each?

arms.py            what is compared
spec.py            what was asked
deck.py, order.py  which prompts, in which order
journal.py         the folder, and how a sweep is resumed
run.py             servers in turn, one load run per cell
cells.py           the numbers of a cell
paired.py          ratios over plain decoding, with their intervals
crossover.py       where an arm stops to pay
recommend.py       which length at which load
analysis.py        all of it, from the cells alone
files.py           the result as configuration of servers
"""

from __future__ import annotations

from specdecode.workload.sweep.analysis import Analysis, analyse
from specdecode.workload.sweep.arms import Arm
from specdecode.workload.sweep.journal import read_plan
from specdecode.workload.sweep.run import SweepProgress, SweepResult, run_sweep
from specdecode.workload.sweep.spec import SweepSpec

__all__ = [
    "Analysis",
    "Arm",
    "SweepProgress",
    "SweepResult",
    "SweepSpec",
    "analyse",
    "read_plan",
    "run_sweep",
]
