"""Measure arms side by side on prompts, in one process, one row per generation.

Nothing measured is lost: each row is on disk before the next generation starts, and a run that was
cut off (Ctrl-C, full disk, crash) continues where it stopped when it is started again.
"""

from __future__ import annotations

import errno
import logging
import resource
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

import pyarrow as pa
from pydantic import TypeAdapter
from rich.console import Console

from specdecode.decoding.params import SamplingParams
from specdecode.errors import ConfigError, EngineError, UserError
from specdecode.measurement.records import Record
from specdecode.workload.checkers import Checker, check
from specdecode.workload.progress import progress
from specdecode.workload.sampling import SamplingSetting
from specdecode.workload.schedule import Generation, plan_generations

log = logging.getLogger("specdecode.measure")

WARM_UP_TOKENS = 8

_CHECKER: TypeAdapter[Checker | None] = TypeAdapter(Checker | None)


class Generator(Protocol):
    """What an arm must be able to do; `specdecode.Engine` does."""

    def generate(self, prompts: list[list[int]], params: SamplingParams) -> Sequence[Any]:
        """Decode prompts given as token ids; returns results as in the public contract."""


class Spool(Protocol):
    """Where rows go; `specdecode.measurement.spool.RowSpool` is one."""

    @property
    def done(self) -> frozenset[tuple[str, str, str]]:
        """(prompt_id, arm, sampling name) of rows that are safely stored."""

    def append(self, record: Record) -> None:
        """Store a row; on return it survives a crash."""


@dataclass(frozen=True)
class Measured:
    """What a call of `measure` did."""

    total: int
    resumed: int
    written: int
    failed: int


def measure(
    prompts: pa.Table,
    engines: Mapping[str, Generator],
    settings: Sequence[SamplingSetting],
    spool: Spool,
    *,
    master_seed: int,
    manifest_sha256: str,
    assignment: Mapping[str, Sequence[str]] | None = None,
    stage: str = "offline",
    profile: str | None = None,
    console: Console | None = None,
) -> Measured:
    """Decode every prompt by every arm and store one row each.

    Args:
        prompts: compiled prompts in the order of measurement (`schedule.select_prompts`).
        engines: arm name to engine.
        settings: named sampling settings (`sampling.settings_from`).
        spool: where rows go; keys it already has are skipped.
        master_seed: source of all seeds and arm orders.
        manifest_sha256: names the inputs under which the rows were measured.
        assignment: setting names by prompt id; None gives every prompt every setting.
        stage: stage of the ladder.
        profile: size of the run, such as "full" or "smoke".
        console: for the progress bar; stderr by default.

    Returns:
        Counts of rows. A generation that failed is a row too, with `error` set and null metrics; so
        is one whose drafter failed, although it has a reply: it was not decoded as its arm says.

    Raises:
        ConfigError: nothing to measure, or an unknown name.
        UserError: the disk is full; says how many rows are safe.
        KeyboardInterrupt: passed on; the rows so far are safe.
    """
    rows = {str(row["prompt_id"]): row for row in prompts.to_pylist()}
    if len(rows) < prompts.num_rows:
        raise ConfigError("measure: a prompt occurs twice")
    plan = plan_generations(
        list(rows), settings, list(engines), master_seed=master_seed, assignment=assignment
    )
    done = spool.done
    todo = [generation for generation in plan if generation.key not in done]
    resumed, written, failed = len(plan) - len(todo), 0, 0
    if not todo:
        return Measured(len(plan), resumed, 0, 0)
    checkers = {
        name: _CHECKER.validate_json(row["checker"] or "null") for name, row in rows.items()
    }
    warm_up(engines, rows[todo[0].prompt_id]["prompt_token_ids"], settings)
    try:
        with progress("measure", len(plan), resumed, console) as advance:
            for generation in todo:
                record = generate_record(
                    generation,
                    rows[generation.prompt_id],
                    engines[generation.arm],
                    checkers[generation.prompt_id],
                    {"stage": stage, "profile": profile, "manifest_sha256": manifest_sha256},
                )
                spool.append(record)
                written += 1
                failed += record.error is not None
                advance(generation.request_id)
    except KeyboardInterrupt:
        log.warning("%s", _safe(resumed + written, len(plan)))
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            safe = _safe(resumed + written, len(plan), "Free some space and run")
            raise UserError(f"the disk is full. {safe}") from error
        raise
    if failed:
        log.warning("%d of %d generations failed; see the column 'error'", failed, written)
    return Measured(len(plan), resumed, written, failed)


def _safe(rows: int, total: int, what_next: str = "Run") -> str:
    return f"{rows} of {total} rows are safe. {what_next} the same command again to continue."


def warm_up(
    engines: Mapping[str, Generator],
    prompt_token_ids: Sequence[int],
    settings: Sequence[SamplingSetting],
) -> dict[str, str]:
    """One short unrecorded generation per arm and setting: first calls allocate and compile.

    Returns:
        Why, by arm, for those that failed; they are logged as well.
    """
    failed = {}
    for arm, engine in engines.items():
        for setting in settings:
            params = _with(setting.params, seed=0, max_tokens=WARM_UP_TOKENS)
            try:
                _refuse_without_drafts(engine.generate([list(prompt_token_ids)], params)[0])
            except Exception as error:  # noqa: BLE001 - if it is real, it comes back as a recorded row
                failed[arm] = _describe(error)
                log.warning("warm-up of arm %s failed: %s", arm, failed[arm])
    return failed


def _with(params: SamplingParams, *, seed: int, max_tokens: int | None = None) -> SamplingParams:
    changes: dict[str, Any] = {"seed": seed}
    if max_tokens is not None:
        changes["max_tokens"] = min(max_tokens, params.max_tokens)
    return params.model_copy(update=changes)


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": ")


def generate_record(
    generation: Generation,
    row: Mapping[str, Any],
    engine: Generator,
    checker: Checker | None,
    run: Mapping[str, Any],
) -> Record:
    """Decode once, and say in a row what came of it; a failure is a row too.

    Args:
        generation: what is decoded, and with which seed.
        row: the prompt, with the columns of a compiled table.
        engine: of the generation's arm.
        checker: of the prompt.
        run: the fields `stage`, `profile` and `manifest_sha256`, alike in all rows.

    Raises:
        OSError: the disk is full.
    """
    fields = _asked(generation, row, run)
    params = _with(generation.sampling.params, seed=generation.seed)
    try:
        result = engine.generate([list(row["prompt_token_ids"])], params)[0]
        _refuse_without_drafts(result)
        fields.update(_observed(result))
        record = Record(**fields)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        return _failure(fields, error)
    except Exception as error:  # noqa: BLE001 - one bad generation must not cost the others
        return _failure(fields, error)
    # Outside the timed region, and after it: a check may start a process of its own.
    quality = None if record.output_text is None else check(checker, record.output_text)
    return record.model_copy(update={"quality": quality, "peak_rss_bytes": peak_rss_bytes()})


def failed_record(
    generation: Generation, row: Mapping[str, Any], run: Mapping[str, Any], error: str
) -> Record:
    """The row of a generation of which there is nothing but the reason why."""
    return Record(**_asked(generation, row, run), error=error)


def _asked(
    generation: Generation, row: Mapping[str, Any], run: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        **run,
        "request_id": generation.request_id,
        "prompt_id": generation.prompt_id,
        "arm": generation.arm,
        "category": row["category"],
        "difficulty": row["difficulty"],
        "language": row["language"],
        "prompt_tokens": row["prompt_tokens"],
        "prompt_token_ids": list(row["prompt_token_ids"]),
        "sampling": generation.sampling.recorded(),
        "seed": generation.seed,
        "order_index": generation.order_index,
        "started_at": datetime.now(UTC),
    }


def _refuse_without_drafts(result: Any) -> None:
    """The reply is the target's own, but its speed is that of plain decoding."""
    reason = getattr(result, "draft_failure", None)
    if reason is not None:
        raise EngineError(
            f"the drafter failed ({reason}) and the reply was finished by plain decoding, which "
            "says nothing about this arm: repair the draft or take another, and measure again"
        )


def _failure(fields: Mapping[str, Any], error: Exception) -> Record:
    """A row that says what was asked and why there is no answer."""
    log.warning("%s failed: %s", fields["request_id"], _describe(error))
    asked = {name: value for name, value in fields.items() if name not in _OBSERVED}
    return Record(**asked, error=_describe(error), peak_rss_bytes=peak_rss_bytes())


_OBSERVED = (
    "output_tokens",
    "output_token_ids",
    "output_text",
    "finish_reason",
    "ttft_s",
    "tpot_s",
    "e2e_s",
    "draft_s",
    "verify_s",
    "other_s",
    "steps",
    "drafted",
    "accepted",
    "acceptance_histogram",
    "target_tokens",
)


def _observed(result: Any) -> dict[str, Any]:
    """The part of a result that is evidence; an engine that does not tell leaves null."""
    timing, acceptance = result.timing, result.acceptance
    histogram = getattr(acceptance, "histogram", None)
    return {
        "output_token_ids": list(result.token_ids),
        "output_tokens": len(result.token_ids),
        "output_text": result.text,
        "finish_reason": result.finish_reason,
        "ttft_s": timing.ttft_s,
        "tpot_s": timing.tpot_s,
        "e2e_s": timing.e2e_s,
        "draft_s": timing.draft_s,
        "verify_s": timing.verify_s,
        "other_s": timing.other_s,
        "steps": getattr(acceptance, "steps", None),
        "drafted": getattr(acceptance, "drafted", None),
        "accepted": getattr(acceptance, "accepted", None),
        "acceptance_histogram": None if histogram is None else list(histogram),
        "target_tokens": result.target_tokens,
    }


def peak_rss_bytes() -> int:
    """Largest resident memory of this process so far; shared by all arms, so it never falls."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # macOS counts bytes, Linux KiB
