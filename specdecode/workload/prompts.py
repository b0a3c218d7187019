"""The prompt, and reading prompts from JSONL in the Spec-Bench field style.

A line is one JSON object: `question_id, category, turns, reference` as in Spec-Bench, plus our
`system, difficulty, language, checker`, which plain Spec-Bench files lack and which have defaults.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
)

from specdecode.errors import PromptFileError
from specdecode.workload.checkers import Checker

Difficulty = Literal["normal", "hard", "adversarial"]


def _clean(text: str) -> str:
    """Refuse text that would tokenise, hash or print differently from what its author saw."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError("holds half of a surrogate pair, which is not text") from error
    if not unicodedata.is_normalized("NFC", text):
        raise ValueError("is not in Unicode form NFC; convert it with unicodedata.normalize")
    if not text.strip():
        raise ValueError("is empty")
    odd = [c for c in text if unicodedata.category(c) == "Cc" and c not in "\n\t"]
    if odd:
        raise ValueError(f"holds the control character {odd[0]!r}")
    return text


def _integer_as_text(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _single_as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


Text = Annotated[str, AfterValidator(_clean)]
# An id becomes part of "prompt/sampling/arm", so it holds no slash and no space.
Identifier = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$"),
    BeforeValidator(_integer_as_text),
]


class Prompt(BaseModel):
    """One evaluation prompt.

    Attributes:
        question_id: unique in its set; Spec-Bench integers become text.
        category: kind of task, such as "translate".
        turns: user turns; exactly one so far.
        system: system message, or None for the chat template's own default.
        reference: good answers, or None when there is no single good answer.
        difficulty: "normal", "hard" or "adversarial".
        language: language of the prompt, as a short BCP 47 tag.
        checker: how a program checks the reply, or None when it cannot.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    question_id: Identifier
    category: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9 _.-]{0,63}$")]
    turns: Annotated[tuple[Text, ...], Field(min_length=1, max_length=1)]
    system: Text | None = None
    reference: Annotated[
        Annotated[tuple[Text, ...], Field(min_length=1)] | None, BeforeValidator(_single_as_list)
    ] = None
    difficulty: Difficulty = "normal"
    language: Annotated[str, StringConstraints(pattern=r"^[a-z]{2,3}(-[A-Za-z0-9]{2,8})*$")] = "en"
    checker: Checker | None = None

    @property
    def prompt_id(self) -> str:
        """The name under which records carry this prompt."""
        return self.question_id

    @property
    def text(self) -> str:
        """Everything the author wrote: system message (if any) and user turn."""
        return "\n".join(([self.system] if self.system else []) + list(self.turns))

    @property
    def messages(self) -> list[dict[str, str]]:
        """Chat messages as chat templates take them."""
        system = [{"role": "system", "content": self.system}] if self.system else []
        return system + [{"role": "user", "content": turn} for turn in self.turns]


def load_prompts(path: Path | str, *, first_turn_only: bool = False) -> list[Prompt]:
    """Read a folder of *.jsonl files (in name order, subfolders too) or one JSONL file.

    Args:
        path: folder or file.
        first_turn_only: keep the first turn of multi-turn lines, as in Spec-Bench's chat category,
            instead of refusing them. Chosen by the caller because it changes what is measured.

    Raises:
        PromptFileError: on the first malformed line (file, line, field), a duplicate id, or when
            there is no prompt at all.
    """
    path = Path(path)
    prompts: list[Prompt] = []
    seen: dict[str, str] = {}
    for file in _files(path):
        for number, prompt in _read(file, first_turn_only):
            earlier = seen.get(prompt.question_id)
            if earlier is not None:
                problem = f"{prompt.question_id!r} is already used at {earlier}; ids must be unique"
                raise PromptFileError(file, number, "question_id", problem)
            seen[prompt.question_id] = f"{file}, line {number}"
            prompts.append(prompt)
    if not prompts:
        raise PromptFileError(path, None, None, "holds no prompts; add one JSON object per line")
    return prompts


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        files = sorted(path.rglob("*.jsonl"))
        if not files:
            raise PromptFileError(path, None, None, "the folder holds no .jsonl file")
        return files
    if not path.is_file():
        raise PromptFileError(path, None, None, "there is no such file or folder")
    return [path]


def _read(file: Path, first_turn_only: bool) -> Iterator[tuple[int, Prompt]]:
    try:
        lines = file.read_bytes().split(b"\n")
    except OSError as error:
        raise PromptFileError(file, None, None, f"cannot be read: {error.strerror}") from error
    for number, raw in enumerate(lines, start=1):
        if raw.strip():
            fields = _parse(file, number, raw)
            turns = fields.get("turns")
            if isinstance(turns, list) and len(turns) > 1:
                if not first_turn_only:
                    problem = (
                        f"has {len(turns)} turns, but one is decoded so far; "
                        "set first_turn_only to keep the first of them"
                    )
                    raise PromptFileError(file, number, "turns", problem)
                fields["turns"] = turns[:1]
            yield number, _build(file, number, fields)


def _parse(file: Path, number: int, raw: bytes) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        fields = dict(pairs)
        if len(fields) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise PromptFileError(file, number, twice, "occurs twice in one object; keep one")
        return fields

    def refuse(name: str) -> NoReturn:
        raise PromptFileError(file, number, None, f"{name} is not JSON; write a number or null")

    try:
        value = json.loads(raw.decode("utf-8"), object_pairs_hook=unique, parse_constant=refuse)
    except UnicodeDecodeError as error:
        problem = f"byte {error.start + 1} is not UTF-8; save the file as UTF-8"
        raise PromptFileError(file, number, None, problem) from error
    except json.JSONDecodeError as error:
        problem = f"not valid JSON at column {error.colno}: {error.msg}"
        raise PromptFileError(file, number, None, problem) from error
    except (RecursionError, ValueError) as error:
        if isinstance(error, PromptFileError):
            raise
        raise PromptFileError(file, number, None, f"not readable as JSON: {error}") from error
    if not isinstance(value, dict):
        problem = f"expected a JSON object, found {type(value).__name__}"
        raise PromptFileError(file, number, None, problem)
    return value


def _build(file: Path, number: int, fields: dict[str, Any]) -> Prompt:
    try:
        return Prompt.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = list(first["loc"])
        if len(path) > 1 and path[0] == "checker":
            del path[1]  # pydantic puts the checker's type there, which the file does not have
        field = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in path).lstrip(".")
        if first["type"] in ("union_tag_invalid", "union_tag_not_found"):
            field += ".type"
        problem = _PROBLEMS.get(first["type"], first["msg"].removeprefix("Value error, "))
        raise PromptFileError(file, number, field or None, problem) from error


_PROBLEMS = {
    "extra_forbidden": "is not a known field; remove it or correct its name",
    "missing": "is required but missing",
}
