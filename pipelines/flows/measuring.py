"""One measurement at a time on a CPU machine, one per GPU on others: timings bear no neighbours."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from prefect.concurrency.sync import concurrency

from pipelines.hardware import gpus_here, hardware_class, slot
from pipelines.parameters import read_mapping


@contextlib.contextmanager
def measuring_slot(workspace: Path) -> Iterator[None]:
    """Holds a slot of the machine's class; waits for one when all are taken.

    `python -m pipelines.deployments apply` makes the limits. On a server without them Prefect
    warns and the run goes on: a flow started by hand needs no set-up. The slot is a lease, so one
    whose holder was killed is free again after five minutes; a lease that could not be renewed
    in time spoils no measurement, and is no reason to end it.
    """
    hardware = hardware_class(read_mapping(workspace / "params.yaml"), gpus_here())
    with concurrency(slot(hardware), occupy=1, raise_on_lease_renewal_failure=False):
        yield
