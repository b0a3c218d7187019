"""What the options of `specdecode sweep` mean together: numbers, and the arms to compare."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from specdecode.cli.target import find_target
from specdecode.errors import ConfigError
from specdecode.verification import RULES
from specdecode.workload.server_process import ServerCommand, own_server
from specdecode.workload.sweep import Arm

PLAIN = "plain"
LENGTH = "{k}"
_GREEDY_BLOCK = "greedy-block"


def numbers(option: str, text: str) -> tuple[int, ...]:
    """Whole numbers between commas, at least 1, in rising order, each once.

    Raises:
        ConfigError: they are not.
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise ConfigError(f"{option} {text}: write whole numbers from 1 on, such as 1,4,16")
    return tuple(sorted({int(part) for part in parts}))


def place(source: str) -> str:
    """A model source that does not depend on the folder from which a sweep is resumed."""
    return str(Path(source).resolve()) if Path(source).exists() else source


def which_arms(
    *,
    plain: str | None,
    speculative: str | None,
    target: str,
    draft: str,
    rules: str,
    serve_options: Sequence[str],
    lengths: Sequence[int],
    slots: int,
    engine: str | None,
    model: str | None,
    body: Mapping[str, Any],
    ready_s: float,
    ready_path: str,
) -> list[Arm]:
    """Arms of our server, or of the one whose commands are given.

    Raises:
        ConfigError: only one of the two commands is given, or see `own_arms` and `other_arms`.
    """
    if (plain is None) != (speculative is None):
        raise ConfigError("give both --plain and --speculative, or neither for our own server")
    if plain is not None and speculative is not None:
        arms = other_arms(
            plain=plain,
            speculative=speculative,
            lengths=lengths,
            engine=engine,
            model=model,
            ready_s=ready_s,
            ready_path=ready_path,
        )
    else:
        arms = own_arms(
            target=place(find_target(target)),
            draft=place(draft),
            lengths=lengths,
            rules=[rule.strip() for rule in rules.split(",")],
            slots=slots,
            options=serve_options,
            ready_s=ready_s,
        )
    return [replace(arm, extra_body=body) for arm in arms]


def own_arms(
    *,
    target: str,
    draft: str,
    lengths: Sequence[int],
    rules: Sequence[str],
    slots: int,
    options: Sequence[str],
    ready_s: float,
) -> list[Arm]:
    """Arms of this project's server.

    The guard is off: it would decode plainly where drafts do not pay, and that is what is asked.

    Args:
        target: model source.
        draft: draft source.
        lengths: draft tokens a step.
        rules: verification rules, the preferred one first.
        slots: replies that a server decodes together.
        options: further ones of `specdecode serve`.
        ready_s: seconds a server may take to start.

    Raises:
        ConfigError: a rule is unknown or cannot serve.
    """
    for rule in rules:
        if rule not in RULES or rule == _GREEDY_BLOCK:
            known = ", ".join(name for name in RULES if name != _GREEDY_BLOCK)
            raise ConfigError(f"--rules {rule}: a server verifies by one of {known}")
    if draft == "none":
        raise ConfigError("--draft none leaves nothing to compare; name a draft")

    def server(*more: str) -> ServerCommand:
        limits = ("--slots", str(slots), "--queue", str(max(64, slots)))
        return own_server("--target", target, *limits, *more, *options, ready_s=ready_s)

    drafting = [
        Arm(
            f"{rule}-k{length}",
            server(
                *("--draft", draft, "--verification", rule, "--no-guard"),
                *("--num-speculative-tokens", str(length)),
            ),
            draft_length=length,
            rule=rule,
            baseline=PLAIN,
            engine="specdecode",
        )
        for rule in rules
        for length in lengths
    ]
    return [Arm(PLAIN, server("--draft", "none"), engine="specdecode"), *drafting]


def other_arms(
    *,
    plain: str,
    speculative: str,
    lengths: Sequence[int],
    engine: str | None,
    model: str | None,
    ready_s: float,
    ready_path: str,
) -> list[Arm]:
    """Arms of any server, from the command lines that start it.

    Args:
        plain: starts it without drafts; holds {port}. An http address is a server that runs.
        speculative: starts it with drafts; holds {port} and {k}. Other braces stand for themselves.
        lengths: what {k} becomes.
        engine: name of the adapter; None finds out.
        model: what requests ask for; None takes the only one.
        ready_s: seconds a server may take to start.
        ready_path: answers 200 once requests are taken.

    Raises:
        ConfigError: a command lacks a place, or cannot be split into words.
    """

    def server(option: str, text: str) -> ServerCommand | str:
        if text.startswith(("http://", "https://")):
            return text
        try:
            argv = shlex.split(text)
        except ValueError as error:
            raise ConfigError(f"{option}: cannot be split into words ({error})") from error
        return ServerCommand(argv, ready_path=ready_path, ready_s=ready_s)

    if LENGTH not in speculative and len(lengths) > 1:
        raise ConfigError(
            f"--speculative does not say where the draft length goes: put {LENGTH} there"
        )
    drafting = [
        Arm(
            f"k{length}",
            server("--speculative", speculative.replace(LENGTH, str(length))),
            draft_length=length,
            baseline=PLAIN,
            engine=engine,
            model=model,
        )
        for length in lengths
    ]
    return [Arm(PLAIN, server("--plain", plain), engine=engine, model=model), *drafting]
