"""How each external engine is started for a test or a comparison: two threads, the same context.

Settings that would make a comparison unfair are named here: repeated prompts are computed again,
sampling defaults of the model's folder are not applied, and the precision is stated.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipelines.external.environments import interpreter
from specdecode.workload.server_process import PORT, ServerCommand

CONTEXT = 1024
"""Tokens of prompt and reply together."""
SLOTS = 16
THREADS = 2
NAME = "target"
"""Of the model, in requests."""

_LAUNCHER = Path(__file__).with_name("llama_cpp_server.py")
_MEND = Path(__file__).with_name("mend")
MEND_CODE = _MEND / "specdecode_mend.py"
_QUIET = {"DO_NOT_TRACK": "1", "HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}


def vllm_command(
    environment: Path,
    target: Path,
    *,
    speculative: Mapping[str, Any] | None = None,
    max_num_seqs: int = SLOTS,
    context: int = CONTEXT,
    threads: int = THREADS,
    mended: bool = False,
) -> ServerCommand:
    """Start vLLM on the CPU, in bfloat16.

    Args:
        environment: of vLLM.
        target: model folder.
        speculative: its `--speculative-config`, such as `draft_model(folder)`; None decodes
            plainly.
        max_num_seqs: replies at a time.
        context: most tokens of prompt and reply together.
        threads: that compute.
        mended: whether sampling parameters reach drafted positions, which in this version on the
            CPU they do not (see docs/external.md). Plain decoding is the same either way.
    """
    argv = [
        # The command `vllm` looks for packages that do not load beside a CPU build of torch.
        *(str(interpreter(environment)), "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", str(target), "--served-model-name", NAME),
        *("--host", "127.0.0.1", "--port", PORT),
        *("--dtype", "bfloat16", "--max-model-len", str(context)),
        *("--max-num-seqs", str(max_num_seqs)),
        *("--generation-config", "vllm"),
        "--enforce-eager",
        "--no-enable-prefix-caching",
    ]
    if speculative is not None:  # vLLM refuses the metrics without it
        argv += ["--speculative-config", json.dumps(dict(speculative), sort_keys=True)]
        argv += ["--per-request-spec-decode-metrics", "summary"]
    return ServerCommand(
        argv,
        {
            **_QUIET,
            "OMP_NUM_THREADS": str(threads),
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
            "VLLM_USE_V2_MODEL_RUNNER": "0",  # the other one refuses ngram and draft_model
            "VLLM_SERVER_DEV_MODE": "1",  # shows its configuration
            "VLLM_NO_USAGE_STATS": "1",
            "PYTHONPATH": str(_MEND) if mended else "",
        },
        ready_s=600.0,
    )


def draft_model(folder: Path, tokens: int = 5) -> dict[str, Any]:
    """Configuration of vLLM for a draft model."""
    return {"method": "draft_model", "model": str(folder), "num_speculative_tokens": tokens}


def ngram(tokens: int = 5) -> dict[str, Any]:
    """Configuration of vLLM for prompt lookup."""
    return {
        "method": "ngram",
        "num_speculative_tokens": tokens,
        "prompt_lookup_max": 4,
        "prompt_lookup_min": 1,
    }


def llama_cpp_command(
    environment: Path,
    target: Path,
    *,
    draft: Path | None = None,
    draft_tokens: int = 5,
    slots: int = SLOTS,
    context: int = CONTEXT,
    threads: int = THREADS,
) -> ServerCommand:
    """Start the server of llama.cpp, in the precision of the file.

    Args:
        environment: of llama.cpp.
        target: GGUF file.
        draft: GGUF file; None decodes plainly.
        draft_tokens: most tokens drafted at a time.
        slots: replies at a time.
        context: most tokens of prompt and reply together, in each slot.
        threads: that compute.
    """
    argv = [
        *(str(interpreter(environment)), str(_LAUNCHER)),
        *("--model", str(target), "--name", NAME, "--port", PORT),
        *("--slots", str(slots), "--context", str(context), "--threads", str(threads)),
    ]
    if draft is not None:
        argv += ["--draft", str(draft), "--draft-tokens", str(draft_tokens)]
    return ServerCommand(argv, {**_QUIET, "PYTHONPATH": ""})
