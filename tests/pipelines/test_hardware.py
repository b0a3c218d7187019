"""Which kind of machine a run needs follows from the parameters."""

from __future__ import annotations

from typing import Any

import pytest

from pipelines.hardware import hardware_class
from specdecode.errors import ConfigError


@pytest.mark.parametrize(
    ("device", "gpus", "expected"),
    [
        ("auto", 0, "cpu"),
        ("auto", 2, "gpu"),
        ("cpu", 2, "cpu"),
        ("cuda", 0, "gpu"),  # the worker has it, even if the machine that deploys has none
    ],
)
def test_the_hardware_class_follows_from_the_device(device: str, gpus: int, expected: str) -> None:
    assert hardware_class({"decoding": {"device": device}}, gpus) == expected


@pytest.mark.parametrize("params", [{}, {"decoding": None}, {"decoding": {"device": "tpu"}}])
def test_a_device_nobody_knows_is_refused(params: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="take auto, cpu or cuda"):
        hardware_class(params, 0)
