"""A training run between two steps, in one file that is there whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor, nn

from specdecode.durable import written_whole
from specdecode.errors import EvidenceError

_MOMENTS = ("exp_avg", "exp_avg_sq")


def save_checkpoint(
    path: Path, trained: dict[str, nn.Parameter], optimizer: torch.optim.Optimizer, step: int
) -> None:
    """Write weights, the optimiser's moments and the number of steps done."""
    content: dict[str, Tensor] = {}
    for name, parameter in trained.items():
        content[f"weight.{name}"] = parameter.detach().cpu().contiguous()
        for moment in _MOMENTS:
            if moment in (state := optimizer.state.get(parameter, {})):
                content[f"{moment}.{name}"] = state[moment].cpu().contiguous()
    raw = save(content, metadata={"step": str(step)})
    with written_whole(path) as file:
        file.write(raw)


def load_checkpoint(
    path: Path, trained: dict[str, nn.Parameter], optimizer: torch.optim.Optimizer
) -> int:
    """Go on from a checkpoint; returns the number of steps done.

    Raises:
        EvidenceError: it is damaged, or of another draft.
    """
    try:
        with safe_open(path, framework="pt") as file:
            step = int(file.metadata()["step"])
            content = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        with torch.no_grad():
            for name, parameter in trained.items():
                parameter.copy_(content[f"weight.{name}"])
                if step:
                    state: dict[str, Any] = {"step": torch.tensor(float(step))}
                    for moment in _MOMENTS:
                        state[moment] = content[f"{moment}.{name}"].to(parameter.device)
                    optimizer.state[parameter] = state
    except Exception as error:  # safetensors raises types of its own for a damaged file
        raise EvidenceError(
            f"'{path}' is damaged or of another draft ({error!r}): remove its folder to train anew "
            "on the texts that are there"
        ) from error
    return step


def truncate_curve(path: Path, step: int) -> None:
    """Forget points of the curve after a step: they are about to be drawn again."""
    if not path.is_file():
        return
    kept = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            point = json.loads(line)
        except ValueError:
            break  # a line that a kill cut short
        if point["step"] <= step:
            kept.append(line + "\n")
    with written_whole(path) as file:
        file.write("".join(kept).encode())
