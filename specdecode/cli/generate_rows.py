"""`specdecode generate --rows`: replies to many prompts, as rows that `specdecode audit` reads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specdecode.cli.console import number, stderr, stdout
from specdecode.cli.outputs import refuse_unwritable, write_output
from specdecode.errors import ConfigError

if TYPE_CHECKING:
    from specdecode import SamplingParams
    from specdecode.cli.live import Lane
    from specdecode.models import LoadedModel
    from specdecode.workload import Prompt
    from specdecode.workload.decoded_rows import Asked

_SUFFIX = ".jsonl"


def check_rows(path: Path) -> None:
    """Refuse a file that the audit would not read, or that cannot be written, before any work.

    Raises:
        ConfigError: names it.
    """
    if path.suffix != _SUFFIX:
        raise ConfigError(
            f"{path}: rows are written as JSON lines; name a file ending in {_SUFFIX}"
        )
    refuse_unwritable(path)


def prompts_at(text: str) -> list[Prompt] | None:
    """The prompts of the file or folder that `text` names; None where it is a prompt itself.

    Raises:
        PromptFileError: the prompts there are malformed.
        ConfigError: it can only be meant as a file, and there is none.
    """
    from specdecode.workload import load_prompts

    if _exists(text):
        return load_prompts(text)
    if text.endswith(_SUFFIX) and not any(character.isspace() for character in text):
        raise ConfigError(f"{text}: no such file; give prompts (docs/bring-your-own.md) or a text")
    return None


def _exists(text: str) -> bool:
    try:
        return bool(text) and Path(text).exists()  # an empty path would be the working directory
    except (OSError, ValueError):  # too long for a name, or holds a null character
        return False


def asked_of(prompts: Sequence[Prompt], model: LoadedModel, *, raw: bool) -> list[Asked]:
    """Prompts of a set as chat messages where the model knows chat, as they are otherwise."""
    from specdecode.workload.decoded_rows import Asked

    chat = not raw and bool(getattr(model.tokenizer, "chat_template", None))
    return [
        Asked(
            one.messages if chat else one.text,
            {
                "prompt_id": one.prompt_id,
                "category": one.category,
                "difficulty": one.difficulty,
                "language": one.language,
            },
        )
        for one in prompts
    ]


def write_rows(
    path: Path,
    lanes: Sequence[Lane],
    asked: Sequence[Asked],
    params: SamplingParams,
    *,
    trace: bool,
) -> dict[str, dict[str, Any]]:
    """Decode all prompts by every lane, and write the rows once all are there.

    Returns:
        By arm: replies, output_tokens, drafted, accepted, acceptance_rate (null where nothing was
        drafted), steps_recorded and draft_failures.
    """
    from specdecode.workload.decoded_rows import decoded_rows
    from specdecode.workload.progress import progress

    rows: list[dict[str, Any]] = []
    with progress("decode", len(lanes) * len(asked) * params.n, 0, stderr()) as advance:
        for lane in lanes:
            for row in decoded_rows(lane.engine, asked, params, trace=trace):
                rows.append(row)
                advance(str(row.get("prompt_id", "")))
    write_output(path, "".join(json.dumps(row) + "\n" for row in rows).encode())
    arms = dict.fromkeys(row["arm"] for row in rows)
    return {arm: _summary([row for row in rows if row["arm"] == arm]) for arm in arms}


def _summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    drafted, accepted = (sum(row[name] for row in rows) for name in ("drafted", "accepted"))
    return {
        "replies": len(rows),
        "output_tokens": sum(len(row["output_token_ids"]) for row in rows),
        "drafted": drafted,
        "accepted": accepted,
        "acceptance_rate": accepted / drafted if drafted else None,
        "steps_recorded": sum(len(row["trace"] or ()) for row in rows),
        "draft_failures": sum(row["draft_failure"] is not None for row in rows),
    }


def show_written(
    path: Path, arms: dict[str, dict[str, Any]], params: SamplingParams, *, trace: bool
) -> None:
    """What was written, and what cannot be learnt from it."""
    console = stdout()
    for arm, found in arms.items():
        facts = f"{arm}: {found['replies']} replies, {found['output_tokens']} tokens"
        if found["drafted"]:
            facts += f", {number(100 * found['acceptance_rate'], 1)} % of drafted tokens accepted"
        if found["steps_recorded"]:
            facts += f", {found['steps_recorded']} steps recorded"
        if found["draft_failures"]:
            facts += f"; the draft failed in {found['draft_failures']} of them"
        console.print(facts, markup=False, highlight=False)
    if trace and params.is_greedy:
        console.print("Greedy replies tell nothing about the draft; add --temperature 1.")
    console.print(f"Rows: {path}", markup=False, highlight=False)
