"""The requests of a run, in order: what is asked, when it is due, which are cancelled.

Everything is known before the first request is sent, and the same spec and files give the same
plan. Only a closed loop that is bounded by time alone is endless here.
"""

from __future__ import annotations

import itertools
import logging
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from specdecode.errors import ConfigError
from specdecode.workload.load.arrivals import Replay
from specdecode.workload.load.importers import Entry, Skipped, read_entries
from specdecode.workload.load.request import Prompt, Request
from specdecode.workload.load.salt import SaltedPrompt, salt_for
from specdecode.workload.load.sampling import Setting, drawn
from specdecode.workload.load.spec import LoadSpec
from specdecode.workload.load.synthetic import SyntheticPrompt
from specdecode.workload.split import seeded_hash

log = logging.getLogger("specdecode.load")

DEFAULT_MAX_TOKENS: Final = 128
_HOW_TO_REPEAT: Final = (
    "; --repeats salt puts a few characters of its own before each prompt, so that no cache "
    "answers for the model; --repeats allow sends repeats as they are"
)
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9._:-]")


@dataclass(frozen=True)
class Plan:
    """What will be sent.

    Args:
        requests: in the order of their due times.
        total: how many; None when only the clock ends the run.
        warm_ups: sent before, and kept apart.
        skipped: what the files hold and the run leaves out, and why.
        synthetic: whether prompts were made to a length.
    """

    requests: Iterable[Request]
    total: int | None
    warm_ups: list[Request]
    skipped: Skipped
    synthetic: bool


def make_plan(spec: LoadSpec) -> Plan:
    """The plan of a spec.

    Raises:
        ConfigError: a prompt repeats and repeats are refused, or a file has fewer requests than
            were asked for.
        PromptFileError: a file is malformed.
    """
    skipped: Skipped = Counter()
    entries = _entries(spec, skipped)
    due: Iterator[float | None] = itertools.repeat(None)
    if spec.arrivals == "trace":
        entries, again = itertools.tee(entries)
        due = iter(Replay((_time(entry) for entry in again), spec.speed_up).times(spec.seed))
    elif (schedule := spec.schedule()) is not None:
        due = schedule.times(spec.seed)
    requests = _requests(spec, zip(entries, due, strict=False))
    bounded = spec.open_loop or spec.requests is not None
    if not bounded and not _endless(spec):
        # Closed loop until the clock or the prompts run out, each prompt once at most.
        planned: Iterable[Request] = list(requests)
    else:
        planned = list(requests) if bounded else requests
    if isinstance(planned, list):
        _check_length(spec, planned)
    warm_ups = list(_warm_ups(spec)) if spec.warm_up else []
    for reason, number in skipped.items():
        log.info("%d: %s", number, reason)
    return Plan(
        requests=planned,
        total=len(planned) if bounded and isinstance(planned, list) else None,
        warm_ups=warm_ups,
        skipped=skipped,
        synthetic=spec.prompts is None,
    )


def _endless(spec: LoadSpec) -> bool:
    return spec.trace is None and (spec.prompts is None or spec.repeats != "refuse")


def _entries(spec: LoadSpec, skipped: Skipped) -> Iterator[Entry]:
    """Entries in order, as many as there may be."""
    if spec.trace is not None:
        entries = read_entries(spec.trace, spec.trace_format, skipped)
        if spec.prompts is None:
            yield from entries
            return
        written = _written(spec, skipped)
        for entry in entries:
            prompt = next(written, None)
            if prompt is None:
                return
            yield replace(prompt, timestamp_s=entry.timestamp_s, output_tokens=entry.output_tokens)
    elif spec.prompts is not None:
        yield from _written(spec, skipped)
    else:
        for index in itertools.count():
            yield Entry(name=f"synthetic-{index}", input_tokens=spec.input_tokens)


def _written(spec: LoadSpec, skipped: Skipped) -> Iterator[Entry]:
    """The prompts of the file; again and again where repeats are not refused."""
    if spec.prompts is None:
        return
    kept: list[Entry] = []
    for entry in read_entries(spec.prompts, spec.prompt_format, skipped):
        if entry.prompt is None:
            raise ConfigError(
                f"{spec.prompts} tells lengths and not what was asked; pass it as a trace"
            )
        if spec.repeats != "refuse":
            kept.append(entry)
        yield entry
    if kept:
        yield from itertools.cycle(kept)


def _time(entry: Entry) -> float:
    if entry.timestamp_s is None:
        raise ConfigError(f"{entry.name}: has no time, so it cannot be replayed; choose --arrivals")
    return entry.timestamp_s


def _requests(spec: LoadSpec, pairs: Iterable[tuple[Entry, float | None]]) -> Iterator[Request]:
    settings = spec.settings
    seen: dict[str, str] = {}
    names: Counter[str] = Counter()
    cancels = random.Random(seeded_hash("cancellations", spec.seed))  # noqa: S311 - no secret
    for index, (entry, due) in enumerate(pairs):
        if spec.requests is not None and index >= spec.requests:
            return
        if due is not None and spec.duration_s is not None and due >= spec.duration_s:
            return
        name = _NOT_IN_A_NAME.sub("_", entry.name)[:120] or "prompt"
        names[name] += 1
        prompt_id = name if names[name] == 1 else f"{name}~{names[name]}"
        prompt = _prompt(spec, entry)
        if spec.repeats == "salt":
            prompt = SaltedPrompt(prompt, salt_for(spec.seed, index))
        elif spec.repeats == "refuse":
            _refuse_repeat(seen, prompt, entry.name)
        sampling = drawn(settings, spec.seed, index)
        yield Request(
            index=index,
            prompt_id=prompt_id,
            prompt=prompt,
            max_tokens=_max_tokens(spec, sampling, entry),
            sampling=sampling,
            due_s=due,
            cancel_after=spec.cancel_after if cancels.random() < spec.cancel_share else None,
            asked_tokens=entry.input_tokens if entry.prompt is None else None,
            category=entry.category,
            language=entry.language,
            difficulty=entry.difficulty,
        )


def _prompt(spec: LoadSpec, entry: Entry) -> Prompt:
    if entry.prompt is not None:
        return entry.prompt
    tokens = entry.input_tokens or spec.input_tokens
    if tokens is None:
        raise ConfigError(f"{entry.name}: has neither a text nor a length; give --input-tokens")
    return SyntheticPrompt(
        seed=spec.seed,
        key=entry.name,
        tokens=tokens,
        blocks=entry.blocks,
        block_tokens=entry.block_tokens,
        vocab_size=spec.vocab_size,
    )


def _max_tokens(spec: LoadSpec, sampling: Setting, entry: Entry) -> int:
    return sampling.max_tokens or spec.max_tokens or entry.output_tokens or DEFAULT_MAX_TOKENS


def _refuse_repeat(seen: dict[str, str], prompt: Prompt, name: str) -> None:
    identity = prompt.identity
    if identity in seen:
        raise ConfigError(
            f"the prompts of {seen[identity]} and {name} are equal, and a prefix cache would "
            f"answer the second{_HOW_TO_REPEAT}"
        )
    seen[identity] = name


def _check_length(spec: LoadSpec, planned: list[Request]) -> None:
    if not planned:
        raise ConfigError("the plan holds no request: raise --duration, --rate or --requests")
    if spec.requests is None or len(planned) >= spec.requests or spec.duration_s is not None:
        return
    where = spec.prompts if spec.prompts is not None else spec.trace
    more = "" if spec.prompts is None else _HOW_TO_REPEAT
    raise ConfigError(
        f"{where} holds {len(planned)} requests, {spec.requests} were asked for; "
        f"ask for {len(planned)} at most{more}"
    )


def _warm_ups(spec: LoadSpec) -> Iterator[Request]:
    """Like the first requests of the plan, but none of them is sent again."""
    entries = itertools.islice(itertools.cycle(_first(spec)), spec.warm_up)
    for index, entry in enumerate(entries):
        prompt = SaltedPrompt(_prompt(spec, entry), salt_for(spec.seed, "warm-up", index))
        sampling = drawn(spec.settings, spec.seed, "warm-up", index)
        yield Request(
            index=index,
            prompt_id=f"warm-up-{index}",
            prompt=prompt,
            max_tokens=_max_tokens(spec, sampling, entry),
            sampling=sampling,
            asked_tokens=entry.input_tokens if entry.prompt is None else None,
            warm_up=True,
        )


def _first(spec: LoadSpec) -> list[Entry]:
    return list(itertools.islice(_entries(spec, Counter()), spec.warm_up))
