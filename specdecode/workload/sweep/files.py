"""The result of a sweep as files: all numbers, a table, and configuration for servers.

    sweep.json    everything
    cells.csv     one line per cell
    lengths.json  for `specdecode serve --draft-lengths`: [[first, last, draft length], …]
    vllm.json     to be merged into vLLM's --speculative-config

vLLM reads `num_speculative_tokens_per_batch_size` as [first, last, k] with both ends included: the
first range begins at 1, ranges do not overlap, k is at most `num_speculative_tokens`, which is at
least 1, and batches beyond the last range get its k (v0.32, vllm/config/speculative.py and
vllm/v1/spec_decode/dynamic). So where drafting pays nowhere there is no vllm.json: run it without
a speculative configuration.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from specdecode.durable import written_whole
from specdecode.workload.sweep.journal import write_json

RESULT: Final = "sweep.json"
CELLS: Final = "cells.csv"


def write_files(folder: Path, document: dict[str, Any]) -> list[Path]:
    """Write what there is to write.

    Configuration follows only from a sweep that got to its end, as loads may be missing before. One
    file each, or one per baseline where there are several.

    Args:
        folder: of the sweep.
        document: of the result; gets the names of the files by baseline.

    Returns:
        The files.
    """
    written = [folder / RESULT, folder / CELLS]
    recommendations = document["recommendations"]
    for recommendation in recommendations:
        name = "" if len(recommendations) == 1 else f".{recommendation['baseline']}"
        files = {
            "lengths": (folder / f"lengths{name}.json", recommendation["schedule"]),
            "vllm": (folder / f"vllm{name}.json", for_vllm(recommendation["schedule"])),
        }
        recommendation["files"] = dict.fromkeys(files)
        for kind, (path, content) in files.items():
            if content is None or document["status"] == "interrupted":
                path.unlink(missing_ok=True)  # of an earlier call that knew less
                continue
            with written_whole(path) as file:
                file.write(json.dumps(content).encode() + b"\n")
            recommendation["files"][kind] = path.name
            written.append(path)
    _write_table(folder / CELLS, document["cells"])
    write_json(folder / RESULT, document)
    return written


def for_vllm(schedule: Sequence[Sequence[int]]) -> dict[str, Any] | None:
    """Fields of vLLM's speculative configuration; None where nothing is to be drafted."""
    most = max(length for _, _, length in schedule)
    if not most:
        return None
    return {
        "num_speculative_tokens": most,
        "num_speculative_tokens_per_batch_size": [list(part) for part in schedule],
    }


def _write_table(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    text = io.StringIO()
    if rows:
        table = csv.DictWriter(text, fieldnames=list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    with written_whole(path) as file:
        file.write(text.getvalue().encode())
