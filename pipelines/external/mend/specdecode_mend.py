"""A plug-in for vLLM 0.32.0 on the CPU that makes sampling parameters reach drafted positions.

Without Triton for CPUs, `expand_batch_to_tokens` hands its output to a C++ kernel as a copy in
int64 and drops the copy. Temperature (float32), top-p (float32) and top-k (int32) of drafted
positions are then whatever was in memory. This does the same in PyTorch.
"""

from __future__ import annotations

from typing import Any


def mend() -> None:
    """Replace the function. vLLM calls this once in each of its processes."""
    import torch
    from vllm.v1.sample import rejection_sampler

    def expand(
        x: Any, cu_num_tokens: Any, num_tokens: int, replace_from: float = 0, replace_to: float = 0
    ) -> Any:
        counts = torch.diff(cu_num_tokens, prepend=cu_num_tokens.new_zeros(1))
        values = torch.where(x == replace_from, torch.full_like(x, replace_to), x)
        return torch.repeat_interleave(values, counts.long(), output_size=num_tokens)

    rejection_sampler.expand_batch_to_tokens = expand
