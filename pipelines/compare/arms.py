"""The servers that are compared: each engine plainly, and with what it can draft with.

No engine but this project's can draft with the target's own weights in four bits, and no small
checkpoint with this vocabulary exists. So each engine drafts twice where it can: with a copy of
the target that lacks four layers, which all of them load, and with the best that it has by itself.
"""

from __future__ import annotations

from pathlib import Path

from pipelines.external.environments import environment
from pipelines.external.models import Models
from pipelines.external.servers import (
    CONTEXT,
    SLOTS,
    draft_model,
    llama_cpp_command,
    ngram,
    vllm_command,
)
from specdecode.workload.server_process import ServerCommand, own_server
from specdecode.workload.sweep import Arm

LENGTH = 4
"""Draft tokens a step, in every arm that drafts."""
PLAIN = {"specdecode": "specdecode-plain", "vLLM": "vllm-plain", "llama.cpp": "llama.cpp-plain"}
"""Engines, and their arms without drafts."""
SHOWN = {
    "specdecode-plain": "plain",
    "specdecode-self-int4": "the target in four bits, block verification",
    "specdecode-pruned": "pruned copy, block verification",
    "vllm-plain": "plain",
    "vllm-pruned": "pruned copy",
    "vllm-ngram": "prompt lookup",
    "llama.cpp-plain": "plain",
    "llama.cpp-pruned": "pruned copy",
}
"""What each arm drafts with, for people."""


def engine_of(arm: str) -> str:
    """The engine of an arm."""
    return next(name for name in PLAIN if arm.startswith(name.lower()))


def all_arms(models: Models) -> list[Arm]:
    """The servers, in the order of the table.

    Args:
        models: that they load.

    Raises:
        MissingPrerequisiteError: an engine is not installed; says which command does it.
    """
    vllm, llama_cpp = environment("vllm"), environment("llama.cpp")
    gguf, gguf_draft = models.gguf, models.gguf_draft
    arms = [
        Arm(PLAIN["specdecode"], own_command(models.target, "none")),
        _drafting("specdecode-self-int4", own_command(models.target, "self-int4"), "block"),
        _drafting("specdecode-pruned", own_command(models.target, str(models.draft)), "block"),
        Arm(PLAIN["vLLM"], vllm_command(vllm, models.target)),
        _drafting(
            "vllm-pruned",
            vllm_command(vllm, models.target, speculative=draft_model(models.draft, LENGTH)),
        ),
        _drafting("vllm-ngram", vllm_command(vllm, models.target, speculative=ngram(LENGTH))),
    ]
    if gguf is not None and gguf_draft is not None:
        arms += [
            Arm(PLAIN["llama.cpp"], llama_cpp_command(llama_cpp, gguf)),
            _drafting(
                "llama.cpp-pruned",
                llama_cpp_command(llama_cpp, gguf, draft=gguf_draft, draft_tokens=LENGTH),
            ),
        ]
    return arms


def own_command(target: Path, draft: str) -> ServerCommand:
    """This project's server, with room for as many replies as the others have.

    Args:
        target: model folder.
        draft: as for `specdecode serve`.
    """
    return own_server(
        *("--target", str(target), "--draft", draft, "--verification", "block"),
        *("--num-speculative-tokens", str(LENGTH), "--dtype", "bfloat16"),
        *("--slots", str(SLOTS), "--max-prompt-tokens", str(CONTEXT)),
    )


def _drafting(name: str, server: ServerCommand, rule: str | None = None) -> Arm:
    baseline = PLAIN[engine_of(name)]
    return Arm(name, server, draft_length=LENGTH, rule=rule, baseline=baseline)
