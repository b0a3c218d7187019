"""Every kind of drafter over a toy network: a new kind is one line here, and every table has it."""

from __future__ import annotations

from collections.abc import Callable

import torch

from specdecode.drafting import Drafter
from specdecode.drafting.cascade import CascadeDrafter
from specdecode.drafting.draft_model import ModelDrafter
from specdecode.drafting.prompt_lookup import PromptLookupDrafter
from specdecode.drafting.self_draft import SelfDrafter
from specdecode.drafting.suffix import SuffixDrafter
from tests.decoding.toys import TableNetwork, V


def toy_drafters(
    size: int = V, dtype: torch.dtype = torch.float64
) -> dict[str, Callable[[], Drafter]]:
    """Makers by name, for a target of `size` tokens."""

    def network() -> TableNetwork:
        return TableNetwork(2, vocabulary=size, dtype=dtype)

    return {
        "shared-cache": lambda: SelfDrafter("self", network()),
        "own-cache": lambda: ModelDrafter("model", network(), max_context=64),
        "short-context": lambda: ModelDrafter("model", network(), max_context=7),
        "lookup": lambda: PromptLookupDrafter(size, torch.device("cpu"), shortest=1),
        "suffix": lambda: SuffixDrafter(size, torch.device("cpu"), shortest=1),
        "cascade": lambda: CascadeDrafter(
            "cascade",
            PromptLookupDrafter(size, torch.device("cpu"), shortest=1),
            SelfDrafter("self", network()),
        ),
    }


class ChokesOnToken(SelfDrafter):
    """Fails when it is to draft after a token of its own: what it loses depends on what it drew."""

    def __init__(self, token: int) -> None:
        super().__init__("chokes", TableNetwork(2, dtype=torch.float64))
        self.token = token

    def propose(self, contexts, wanted, sample):
        def watched(logits, drawn, index):
            if drawn is not None and bool((drawn[:, -1] == self.token).any()):
                raise RuntimeError("chokes")
            return sample(logits, drawn, index)

        return super().propose(contexts, wanted, watched)
