"""Where training starts: the target's own layers, and a head that understands them.

States that left the target early, or jumped over layers, do not mean to its head what its last
states mean. Left alone, the first hundreds of steps go into undoing that. The linear map that
brings the draft's normed states closest to the target's has a closed form, and is folded into the
head: no operator more (Belrose et al. 2023, "tuned lens", arXiv 2303.08112, fitted here by least
squares). Which layers to take is tried out; what overlaps most with the target, on texts that the
map was not fitted on, is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specdecode.distil.batches import Piece, lookup_of, pieces
from specdecode.distil.student import Student
from specdecode.distil.texts import Conversation
from specdecode.models import LoadedModel

_RIDGE = 1e-4


@dataclass(frozen=True)
class Start:
    """What was found.

    Attributes:
        layers: of the target.
        lens: float32 `[H, H]`; the draft's states times it are the target's, nearly.
        overlaps: Σ min(p, q) (an upper bound, see `loss`) of every start that was tried, by name.
    """

    layers: tuple[int, ...]
    lens: Tensor
    overlaps: dict[str, float]


def candidates(depth: int, layers: int) -> dict[str, tuple[int, ...]]:
    """Choices of layers by name, duplicates left out.

    Args:
        depth: layers of the target.
        layers: of the draft, at most as many.
    """
    ends = (*range(layers - 1), depth - 1)
    spread = tuple(round(i * (depth - 1) / max(1, layers - 1)) for i in range(layers))
    found = {"first": tuple(range(layers)), "ends": ends, "spread": spread}
    return {
        name: choice
        for index, (name, choice) in enumerate(found.items())
        if choice not in list(found.values())[:index]
    }


def find_start(
    target: LoadedModel, texts: Sequence[Conversation], ids: Tensor, layers: int, positions: int
) -> Start:
    """Try all candidates, each with and without the map.

    Args:
        target: the model.
        texts: to fit on and to judge by.
        ids: int64 `[M]`, the draft's tokens.
        layers: of the draft.
        positions: how many scored positions to use at most; half of them judge.
    """
    head = target.module.get_output_embeddings().weight.detach().float()
    lookup = lookup_of(ids, target.vocab_size)
    parts = list(pieces(_some(texts, positions), lookup, target.device))
    fitting, judging = parts[::2], parts[1::2] or parts
    wanted = [_target_states(target, piece) for piece in fitting]
    best: tuple[float, tuple[int, ...], Tensor] | None = None
    overlaps: dict[str, float] = {}
    for name, choice in candidates(int(target.config.num_hidden_layers), layers).items():
        student = Student(target, choice, head[ids.to(head.device)])
        with torch.no_grad():
            own = torch.cat([_states(student, piece) for piece in fitting])
            fitted = _least_squares(own, torch.cat(wanted))
            for kind, lens in (("as it is", torch.eye(len(fitted)).to(fitted)), ("fitted", fitted)):
                overlap = _overlap(student, judging, head[ids.to(head.device)] @ lens.T)
                overlaps[f"{name}, {kind}"] = round(overlap, 6)
                if best is None or overlap > best[0]:
                    best = (overlap, choice, lens)
    assert best is not None  # noqa: S101 - there always is a first candidate
    return Start(best[1], best[2], overlaps)


def _some(texts: Sequence[Conversation], positions: int) -> list[Conversation]:
    chosen: list[Conversation] = []
    left = positions
    for text in texts:
        if left <= 0:
            break
        chosen.append(text)
        left -= len(text.scored)
    return chosen


def _target_states(target: LoadedModel, piece: Piece) -> Tensor:
    with torch.no_grad():
        states = target.module.model(input_ids=piece.tokens, use_cache=False).last_hidden_state
    chosen: Tensor = states.flatten(0, 1)[piece.rows].float()
    return chosen


def _states(student: Student, piece: Piece) -> Tensor:
    return student.hidden(piece.tokens).flatten(0, 1)[piece.rows]


def _least_squares(own: Tensor, wanted: Tensor) -> Tensor:
    """The map A with the least |own·A - wanted|² + ridge; float64 inside."""
    x, y = own.double(), wanted.double()
    gram = x.T @ x
    ridge = _RIDGE * gram.diagonal().mean() * torch.eye(len(gram)).to(gram)
    return torch.linalg.solve(gram + ridge, x.T @ y).float()


def _overlap(student: Student, judging: Sequence[Piece], head: Tensor) -> float:
    total, rows = 0.0, 0
    for piece in judging:
        terms = piece.distance(student.hidden(piece.tokens), head)
        total += (1 - float(terms.tv)) * len(piece.rows)
        rows += len(piece.rows)
    return total / rows
