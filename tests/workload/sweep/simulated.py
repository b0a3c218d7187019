"""Cells of sweeps that never ran, with speeds that are known."""

from __future__ import annotations

import numpy as np

from specdecode.workload.server_process import ServerCommand
from specdecode.workload.sweep import Arm
from specdecode.workload.sweep.cells import Cell
from tests.workload.sweep.cost_server import ACCEPTANCE, step_s

COMMAND = ServerCommand(["serve", "{port}"])
PLAIN = Arm("plain", COMMAND)


def drafting(length, rule=None, name=None):
    return Arm(name or f"k{length}", COMMAND, length, rule, "plain")


def cell(arm, number, load, speed, *, whole=True, tokens=1000):
    return Cell(arm, number, load, whole=whole, seconds=tokens / speed, tokens=tokens)


def cells_of(speeds, rounds, noise=0.0, drift=0.0, seed=0):
    """One cell per arm, load and round.

    Args:
        speeds: tokens per second by (arm, load).
        rounds: how many.
        noise: standard deviation of the logarithm, of each cell by itself.
        drift: the same, common to all cells of a round.
    """
    draw = np.random.default_rng(seed)
    common = np.exp(drift * draw.standard_normal(rounds))
    return [
        cell(arm, number, load, speed * common[number - 1] * np.exp(noise * draw.normal()))
        for (arm, load), speed in speeds.items()
        for number in range(1, rounds + 1)
    ]


def true_speed(length, load):
    """Of the cost server: tokens per step and request, over seconds per step, times requests."""
    return load * (1 + length * ACCEPTANCE) / step_s(load, length)


def grid_of(cells):
    grid = {}
    for each in cells:
        grid.setdefault((each.arm, each.concurrency), []).append(each)
    return grid
