"""Part 2: nothing that was withheld may stand in what is trained on.

Independent of the filter in `synthesise`: it reads what lies in the shards, whoever wrote it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from specdecode.distil.texts import GIVEN_TURN, REPLY, WRITTEN_TURN, read_shard
from specdecode.distil.withheld import Withheld
from specdecode.errors import DataValidationError


def check_overlap(
    folder: Path, pages: Sequence[dict[str, Any]], withheld: Withheld, tokenizer: Any
) -> dict[str, Any]:
    """Compare every conversation with the withheld prompts.

    Returns:
        How much was compared.

    Raises:
        DataValidationError: something is shared; names the conversations, or there are none.
    """
    met: list[str] = []
    seen = 0
    for page in pages:
        for row, text in enumerate(read_shard(folder, page)):
            seen += 1
            turn, reply = (
                tokenizer.decode(text.part(*kinds), skip_special_tokens=True)
                for kinds in ((WRITTEN_TURN, GIVEN_TURN), (REPLY,))
            )
            if withheld.meets(turn=turn, reply=reply):
                met.append(f"{page['name']}/{row}")
    if not seen:
        raise DataValidationError("there are no texts to compare, so nothing may be trained on")
    if met:
        raise DataValidationError(
            f"{len(met)} of {seen} conversations share word runs with withheld prompts; take these "
            "out of --prompts, or remove the shards named and their pages, and start again",
            met,
        )
    return {
        "schema": "specdecode.distil-overlap/1",
        "conversations": seen,
        "shared": 0,
        "withheld_prompts": [page.prompts for page in withheld.pages],
        "shards": {page["name"]: page["sha256"] for page in pages},
    }
