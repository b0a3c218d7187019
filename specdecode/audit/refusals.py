"""Why a row cannot be judged: its tokens are not, or not all, the ones that were drawn.

Tokens that went missing, were made anew from text or were padded no longer follow the target's law
although the engine may be right. To judge them would blame the engine for its record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from numbers import Integral
from typing import Any

from specdecode.audit.row import AuditRow, Vocabulary
from specdecode.errors import ModelMismatchError

ONLY_TEXT = (
    "only the output's text was recorded, and tokens made from text are not the tokens that were "
    "drawn; record output_token_ids (vLLM: return_token_ids)"
)
_RETOKENISED = (
    "the record says that its tokens were made from text, so they are not the tokens that were "
    "drawn; record the ids the engine emitted"
)
# One row may begin so by chance, a whole arm does not.
FEWEST_WITH_BOS = 3
BEGINS_WITH_BOS = (
    "every output begins with the tokenizer's start token, so the ids were made from text with "
    "special tokens added; record the ids the engine emitted"
)


def refused(record: Mapping[str, Any], row: AuditRow, vocabulary: Vocabulary) -> str | None:
    """Why the tokens of a row cannot be the ones drawn; None if nothing speaks against them.

    Args:
        record: as given.
        row: the same with its tokens, before an end token is restored.
        vocabulary: of the target.
    """
    if record.get("retokenised") or record.get("retokenized"):
        return _RETOKENISED
    return (
        _counts(record, row)
        or _after_the_end(row, vocabulary)
        or _limit(row)
        or _spelling(record, row, vocabulary)
    )


def _counts(record: Mapping[str, Any], row: AuditRow) -> str | None:
    asked, told = _count(record.get("prompt_tokens")), _count(record.get("output_tokens"))
    if asked is not None and asked != len(row.prompt):
        return (
            f"the engine read {asked} prompt tokens and {len(row.prompt)} are recorded: it cut the "
            "prompt or used another chat template; record the prompt_token_ids it read"
        )
    # Engines differ in whether the end token counts.
    apart = 0 if told is None else abs(told - len(row.output))
    if apart > (1 if row.finish_reason == "stop" else 0):
        return (
            f"the engine emitted {told} tokens and {len(row.output)} are recorded: the output was "
            "cut, or its tokens were made anew from text"
        )
    return None


def _count(value: Any) -> int | None:
    return None if isinstance(value, bool) or not isinstance(value, Integral) else int(value)


def _after_the_end(row: AuditRow, vocabulary: Vocabulary) -> str | None:
    ends = set(vocabulary.eos_token_ids)
    if row.params.ignore_eos or not ends:
        return None
    at = next((t for t, token in enumerate(row.output[:-1]) if token in ends), None)
    if at is None:
        return None
    return (
        f"{len(row.output) - at - 1} tokens follow the end token at position {at}: padding, or "
        "ignore_eos was in force and is not in sampling"
    )


def _limit(row: AuditRow) -> str | None:
    if "max_tokens" not in row.params.model_fields_set or len(row.output) <= row.params.max_tokens:
        return None
    return (
        f"{len(row.output)} output tokens are recorded where max_tokens is "
        f"{row.params.max_tokens}: some of them were not drawn"
    )


def _spelling(record: Mapping[str, Any], row: AuditRow, vocabulary: Vocabulary) -> str | None:
    text = record.get("output_text")
    if not isinstance(text, str) or not text.strip() or not row.output:
        return None
    try:
        spelled = _plain(vocabulary.decode(row.output))
    except ModelMismatchError:  # no tokenizer: nothing to compare with
        return None
    told = _plain(text)
    # A stop string is cut from the text; an unfinished character spells differently.
    if spelled.startswith(told) or told.startswith(spelled):
        return None
    if spelled and told.endswith(spelled):
        return (
            "output_token_ids spell only the end of output_text, so tokens are missing from the "
            "beginning; record the whole output"
        )
    return (
        "output_token_ids do not spell output_text under the target's tokenizer: another "
        "tokenizer, or tokens of another reply"
    )


def _plain(text: str) -> str:
    """Without white space and replacement characters, in which decoders differ."""
    return "".join(text.replace("\ufffd", "").split())


def with_its_end(row: AuditRow, vocabulary: Vocabulary) -> tuple[AuditRow, str | None]:
    """Restores an unrecorded end token, or says why the row cannot be judged.

    Leaving out a token because of what it was is selection: the tokens that remain no longer follow
    the target's distribution although the engine is right.
    """
    ended = row.finish_reason == "stop"
    eos = set(vocabulary.eos_token_ids)
    if not ended or (row.output and row.output[-1] in eos):
        return row, None
    if row.params.stop and any(s in vocabulary.decode(row.output) for s in row.params.stop):
        return row, None
    if row.params.stop:
        return row, (
            "finish_reason is 'stop' but neither a stop string nor an end token is in "
            "output_token_ids, so tokens were removed from the end"
        )
    if len(eos) != 1:
        return row, (
            "finish_reason is 'stop', the end token is not recorded and the target has "
            f"{len(eos)} of them; record the end token in output_token_ids"
        )
    return replace(row, output=[*row.output, *eos]), None
