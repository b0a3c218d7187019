"""Every error this package raises on purpose.

    SpecdecodeError
    ├── UserError                  the caller can fix it: plain message, exit code 2
    │   ├── ConfigError            a setting, plan or argument is wrong    (also ValueError)
    │   ├── ModelNotFoundError     a model source leads nowhere      (also FileNotFoundError)
    │   ├── ModelMismatchError     target and draft do not go together     (also ValueError)
    │   ├── PromptTooLongError     no room for a reply in the context      (also ValueError)
    │   ├── PromptFileError        malformed prompts: file, line, field    (also ValueError)
    │   ├── DataValidationError    the data failed its checks; names rows  (also ValueError)
    │   ├── MissingPrerequisiteError   a package, file or service is not there
    │   └── ConfirmationConsumed   the confirmation prompts were opened for something else
    ├── EvidenceError              evidence is incomplete, inconsistent or was changed
    ├── TamperedError              a signed or chained record was changed: exit code 3
    └── EngineError                decoding itself failed
        ├── NumericalError         NaN or infinite logits; names the row
        └── OutOfMemoryError       one request alone does not fit        (also MemoryError)

The built-in bases keep `except ValueError` in older callers working.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


class SpecdecodeError(Exception):
    """Base of every deliberate error."""


class UserError(SpecdecodeError):
    """The caller can fix this; the message says how."""


class ConfigError(UserError, ValueError):
    """A setting, plan or argument is wrong."""


class ModelNotFoundError(UserError, FileNotFoundError):
    """A model source does not lead to a model."""


class ModelMismatchError(UserError, ValueError):
    """Target and draft cannot work together (tokenizer, vocabulary, architecture)."""


class PromptTooLongError(UserError, ValueError):
    """A prompt leaves no room for a reply in the model's context window."""


class PromptFileError(UserError, ValueError):
    """A prompt file is malformed.

    Args:
        path: the file.
        line: 1-based line number, or None when the whole file is at fault.
        field: the offending field, or None when the line is not an object at all.
        problem: what is wrong and how to fix it.
    """

    def __init__(self, path: Path | str, line: int | None, field: str | None, problem: str) -> None:
        self.path, self.line, self.field, self.problem = Path(path), line, field, problem
        where = str(path) if line is None else f"{path}, line {line}"
        if field is not None:
            where += f", field '{field}'"
        super().__init__(f"{where}: {problem}")


class DataValidationError(UserError, ValueError):
    """The data failed its checks.

    Args:
        problem: which expectation failed and what to do.
        ids: the offending prompt ids (all of them; the message shows the first ten).
    """

    def __init__(self, problem: str, ids: Sequence[str] = ()) -> None:
        self.problem, self.ids = problem, tuple(ids)
        shown = ", ".join(self.ids[:10]) + (" …" if len(self.ids) > 10 else "")
        super().__init__(f"{problem} [{shown}]" if self.ids else problem)


class MissingPrerequisiteError(UserError):
    """A package, file or service is not there; the message names the command that gets it."""


class ConfirmationConsumed(UserError):  # noqa: N818 - a state of the set, which governance names so
    """The confirmation prompts were opened before, for another candidate, plan or set of inputs."""


class EvidenceError(SpecdecodeError):
    """Evidence is incomplete, inconsistent or was changed after it was written."""


class TamperedError(SpecdecodeError):
    """A signed or chained record is not what was signed or written; the message says where."""


class EngineError(SpecdecodeError):
    """Decoding itself failed."""


class NumericalError(EngineError):
    """A model produced NaN or infinite values; the message names the row.

    Args:
        message: what happened, where, and what to do.
        row: the row of the batch, if it is one row's fault.
    """

    def __init__(self, message: str, row: int | None = None) -> None:
        super().__init__(message)
        self.row = row


class OutOfMemoryError(EngineError, MemoryError):
    """One request alone does not fit in memory; the message says what makes it smaller."""
