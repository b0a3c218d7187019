"""Other prompts for a flip: some of the compiled ones, or all of them with a longer context.

Which half a prompt is in was settled for the whole set before, so a flip decodes no prompt of the
reserve. In the flip's copy the stage `prompts` ends with

    python -m pipelines.flip.population flip.json

which reads what `settings_for` wrote there and changes data/prompts.parquet.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipelines.flip.catalogue import Population
from pipelines.flip.notes import with_notes
from pipelines.stages.command import read_json, run
from specdecode.errors import ConfigError
from specdecode.workload import load_prompts
from specdecode.workload.compile import (
    PROMPTS_SCHEMA,
    encode,
    leaks,
    load_tokenizer,
    read_prompts,
    refuse_too_long,
    write_prompts,
)
from specdecode.workload.personal_data import personal_data
from specdecode.workload.prompts import Prompt
from specdecode.workload.split import SPLITS, assign_splits
from specdecode.workload.text import normalised, sha256

SETTINGS = "flip.json"
TABLE = Path("data/prompts.parquet")
TARGET = Path("models/target")
COVERED = ("category", "language", "difficulty")

Labels = Mapping[str, str]


def labels_of(root: Path, params: Mapping[str, Any]) -> dict[str, Labels]:
    """Returns each prompt's half (`split`) and labels by id, as the stage `prompts` settles them.

    Raises:
        PromptFileError: see `load_prompts`.
    """
    section = params["prompts"]
    prompts = load_prompts(root / section["path"], first_turn_only=section["first_turn_only"])
    halves = assign_splits(
        prompts,
        seed=section["split_seed"],
        jaccard=section["near_duplicate_jaccard"],
        overlap=section["near_duplicate_overlap"],
    )
    return {p.prompt_id: {"split": halves[p.prompt_id], **_labels(p)} for p in prompts}


def _labels(prompt: Prompt) -> Labels:
    return {name: str(getattr(prompt, name)) for name in COVERED}


def kept_of(labels: Mapping[str, Labels], keep: Callable[[Labels], bool]) -> dict[str, Labels]:
    """Returns the prompts that stay.

    A category, language or difficulty that is left in one half only goes as well: the checks of
    the data demand every one in both halves.

    Raises:
        ConfigError: none stays.
    """
    kept = {name: found for name, found in labels.items() if keep(found)}
    while True:
        halves: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        for found in kept.values():
            for label in COVERED:
                halves[label, found[label]].add(found["split"])
        both = {
            name: found
            for name, found in kept.items()
            if all(len(halves[label, found[label]]) == len(SPLITS) for label in COVERED)
        }
        if len(both) == len(kept):
            break
        kept = both
    if not kept:
        raise ConfigError(
            "no prompt is left: the set in prompts.path has none of this kind in both halves; "
            "add some, or leave this flip out"
        )
    return kept


def settings_for(
    population: Population, kept: Mapping[str, Labels], params: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns what the copy's stage `prompts` reads: ids that stay, and the words put before."""
    return {
        "keep": sorted(kept),
        "note_words": population.note_words,
        "max_tokens": params["prompts"]["max_tokens"],
    }


def apply(table: pa.Table, settings: Mapping[str, Any], target: Path) -> pa.Table:
    """Returns the compiled table of the flip, with the columns and the order of a compiled one.

    Args:
        table: as the stage `prompts` compiled it.
        settings: from `settings_for`.
        target: folder with the target's tokenizer.

    Raises:
        ConfigError: a prompt to keep is not in the table.
        PromptTooLongError: a prompt with its notes does not fit the target's context.
    """
    keep = settings["keep"]
    rows = {str(row["prompt_id"]): row for row in table.to_pylist()}
    if absent := sorted(set(keep) - set(rows)):
        raise ConfigError(f"prompts to keep are not in the table: {', '.join(absent[:5])}")
    wanted = set(keep)
    found = [row for name, row in rows.items() if name in wanted]
    if settings["note_words"]:
        _lengthen(found, settings["note_words"], settings["max_tokens"], target)
    for half in SPLITS:
        for index, row in enumerate(row for row in found if row["split"] == half):
            row["order_index"] = index
    return pa.Table.from_pylist(found, schema=PROMPTS_SCHEMA)


def _lengthen(rows: Sequence[dict[str, Any]], words: int, max_tokens: int, target: Path) -> None:
    tokenizer, context_tokens = load_tokenizer(target)
    texts, halves = {}, {}
    for row in rows:
        name = row["prompt_id"]
        row["turns"] = [with_notes(row["turns"][0], name, words), *row["turns"][1:]]
        prompt = Prompt(
            question_id=name, category=row["category"], turns=row["turns"], system=row["system"]
        )
        row["prompt_token_ids"] = encode(prompt, tokenizer)
        row["prompt_tokens"] = len(row["prompt_token_ids"])
        row["sha256_text"] = sha256(prompt.text)
        row["sha256_norm"] = sha256(normalised(prompt.text))
        row["pii_hits"] = personal_data(prompt.text)
        texts[name], halves[name] = prompt.text, row["split"]
    ids = {row["prompt_id"]: row["prompt_token_ids"] for row in rows}
    refuse_too_long(ids, context_tokens, max_tokens)
    exact, overlap = leaks(texts, {row["prompt_id"]: row["sha256_norm"] for row in rows}, halves)
    for row in rows:
        row["leak_exact"], row["leak_overlap"] = exact[row["prompt_id"]], overlap[row["prompt_id"]]


def main() -> None:
    """Changes data/prompts.parquet as the file named on the command line says."""
    write_prompts(apply(read_prompts(TABLE), read_json(sys.argv[1]), TARGET), TABLE)


if __name__ == "__main__":
    run(main)
