"""Turn any model source into one plain Hugging Face folder: safetensors, tokenizer, template."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from specdecode.errors import ModelNotFoundError
from specdecode.models.completeness import refuse_incomplete
from specdecode.models.source import Source, resolve_source


def convert_source(spec: str, out_dir: Path | str, dtype: torch.dtype = torch.bfloat16) -> Path:
    """Write the model behind `spec` as a plain folder.

    A GGUF file is de-quantised once and stored in `dtype`; from then on the folder, not the file,
    is the target whose distribution everything is judged against. A folder is copied as it is.

    Args:
        spec: a model source (see `specdecode.models.source`).
        out_dir: folder to write; what was there before is replaced once the new one is complete.
        dtype: storage type of de-quantised weights.

    Returns:
        `out_dir`.
    """
    source, out = resolve_source(spec), Path(out_dir)
    if source.kind == "folder" and source.path.resolve() == out.resolve():
        return out
    out.parent.mkdir(parents=True, exist_ok=True)
    # A folder of its own per process: two that convert at once must not write into each other's.
    partial = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}."))
    try:
        if source.kind == "folder":
            for file in source.files:
                shutil.copyfile(file, partial / file.name)  # copyfile follows the hub cache's links
        else:
            _convert_gguf(source, partial, dtype)
        partial.chmod(0o755)
        shutil.rmtree(out, ignore_errors=True)
        partial.rename(out)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return out


def _convert_gguf(source: Source, out: Path, dtype: torch.dtype) -> None:
    folder, name = str(source.path.parent), source.path.name
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name)
        loaded, report = AutoModelForCausalLM.from_pretrained(
            folder, gguf_file=name, dtype=torch.float32, output_loading_info=True
        )
    except Exception as error:  # a damaged file fails in as many ways as it has bytes
        raise ModelNotFoundError(
            f"cannot read '{source.path}' as a GGUF model: {error}; the file may be cut off, or "
            "its architecture unknown to this transformers version"
        ) from error
    refuse_incomplete(report, source.path)
    # transformers refuses to save what it loaded from GGUF while the quantisation note is there,
    # so the same weights go into a model built from a config without it.
    settings = loaded.config.to_dict()
    for key in ("quantization_config", "_name_or_path"):
        settings.pop(key, None)
    plain = type(loaded)(type(loaded.config).from_dict(settings))
    plain.load_state_dict(loaded.state_dict())
    plain.to(dtype).save_pretrained(out)
    tokenizer.save_pretrained(out)
    # Safetensors are written owner-only, which other users of a shared cache can't read.
    for file in out.iterdir():
        file.chmod(0o644)
