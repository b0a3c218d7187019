"""Load a model with its tokenizer, ready to decode."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from specdecode.errors import ConfigError, ModelNotFoundError
from specdecode.models.completeness import refuse_incomplete
from specdecode.models.convert import convert_source
from specdecode.models.fingerprint import Fingerprint, fingerprint_folder, sha256_file
from specdecode.models.generic import TransformersNetwork
from specdecode.models.linear import LinearFactory, fastest_exact
from specdecode.models.llama import LlamaNetwork, is_fusable
from specdecode.models.network import CausalNetwork
from specdecode.models.source import Source, resolve_source

_DTYPES = {
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "float16": torch.float16,
    "float64": torch.float64,
}


@dataclass(frozen=True)
class LoadedModel:
    """A model in memory.

    Attributes:
        module: the transformers module (weights of record; eval mode).
        tokenizer: its tokenizer, or None where the folder has none (then prompts are token ids).
        config: its transformers config.
        path: the folder it was loaded from.
        device: where it runs.
        dtype: in which precision.
        eos_token_ids: tokens that end a reply.
        max_context: positions the model was made for.
    """

    module: Any
    tokenizer: Any
    config: Any
    path: Path
    device: torch.device
    dtype: torch.dtype
    eos_token_ids: frozenset[int]
    max_context: int

    @property
    def vocab_size(self) -> int:
        """Length V of a row of logits."""
        return int(self.config.vocab_size)

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """SHA-256 of weights, tokenizer, chat template and config."""
        return fingerprint_folder(self.path)

    @cached_property
    def network(self) -> CausalNetwork:
        """The forward pass with exact weights, laid out for speed."""
        return self.build_network(fastest_exact, fastest_exact)

    def build_network(
        self, make_linear: LinearFactory, make_head: LinearFactory, layers: int | None = None
    ) -> CausalNetwork:
        """A forward pass over the same weights with other products, or fewer layers.

        Raises:
            ModelMismatchError: the architecture can't be decoded, quantised or cut this way.
        """
        with torch.inference_mode():
            if is_fusable(self.config):
                return LlamaNetwork(self.module, make_linear, make_head, layers)
            if make_linear is fastest_exact:
                return TransformersNetwork(self.module, layers=layers)
            return TransformersNetwork(self.module, make_linear, make_head, layers)


def load_model(spec: str | Path, device: str = "auto", dtype: str = "auto") -> LoadedModel:
    """Load a model from any source; sources that are not folders are converted once and kept.

    Args:
        spec: see `specdecode.models.source`.
        device: "auto" takes CUDA where present, else CPU; or a torch device string.
        dtype: "auto" takes bfloat16 where the device computes in it natively, else float32.

    Raises:
        ModelNotFoundError: nothing usable is there.
        ConfigError: unknown device or dtype.
    """
    where = pick_device(device)
    precision = pick_dtype(dtype, where)
    source = resolve_source(str(spec))
    folder = source.path if source.kind == "folder" else _converted(source)
    try:
        module, report = AutoModelForCausalLM.from_pretrained(
            folder,
            dtype=precision,
            attn_implementation="sdpa",
            local_files_only=True,
            output_loading_info=True,
        )
    except Exception as error:  # transformers raises dozens of types for one fact
        raise ModelNotFoundError(
            f"cannot load the model in '{folder}': {error}; compare its files with the "
            "fingerprint, or fetch it again"
        ) from error
    refuse_incomplete(report, folder)
    module = module.to(where).eval().requires_grad_(requires_grad=False)
    tokenizer = _load_tokenizer(folder)
    return LoadedModel(
        module=module,
        tokenizer=tokenizer,
        config=module.config,
        path=folder,
        device=where,
        dtype=precision,
        eos_token_ids=_eos_ids(module, tokenizer),
        max_context=int(getattr(module.config, "max_position_embeddings", 2048)),
    )


def pick_device(name: str) -> torch.device:
    """Resolve "auto" and refuse devices that are not there."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError) as error:
        raise ConfigError(f"unknown device '{name}': use auto, cpu or cuda[:index]") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(
            f"device '{name}' was asked for, but this torch sees no CUDA device: use "
            "device='auto', or check `nvidia-smi` and the torch build with `specdecode doctor`"
        )
    return device


def pick_dtype(name: str, device: torch.device) -> torch.dtype:
    """Resolve "auto" to what the device computes in natively."""
    if name == "auto":
        if device.type == "cuda":
            native = torch.cuda.is_bf16_supported()
        else:
            native = bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
        return torch.bfloat16 if native else torch.float32
    if name not in _DTYPES:
        raise ConfigError(f"unknown dtype '{name}': use auto or one of {', '.join(_DTYPES)}")
    return _DTYPES[name]


def _converted(source: Source) -> Path:
    """The folder a GGUF source was converted to, keyed by its content; made on first use."""
    home = os.environ.get("SPECDECODE_CACHE", "~/.cache/specdecode")
    digest = hashlib.sha256("".join(sha256_file(f) for f in source.files).encode()).hexdigest()
    folder = Path(home).expanduser() / "models" / digest[:16]
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            made = convert_source(str(source.path), Path(scratch) / "model")
            # A folder appears whole or not at all; whoever comes second keeps the first one's.
            with contextlib.suppress(OSError):
                made.rename(folder)
    return folder


def _load_tokenizer(folder: Path) -> Any:
    if not any((folder / n).is_file() for n in ("tokenizer.json", "tokenizer_config.json")):
        return None
    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # a damaged file fails in as many ways as it has bytes
        raise ModelNotFoundError(
            f"cannot read the tokenizer in '{folder}': {error}; fetch its files again"
        ) from error


def _eos_ids(module: Any, tokenizer: Any) -> frozenset[int]:
    """Every end-of-reply token that generation settings, config or tokenizer name."""
    named = [
        getattr(module.generation_config, "eos_token_id", None),
        getattr(module.config, "eos_token_id", None),
        getattr(tokenizer, "eos_token_id", None),
    ]
    ids: set[int] = set()
    for value in named:
        if value is not None:
            ids.update(value if isinstance(value, (list, tuple)) else [value])
    return frozenset(ids)
