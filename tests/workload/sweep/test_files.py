"""Configuration for vLLM, as its v0.32 reads it."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from specdecode.workload.sweep.files import for_vllm
from specdecode.workload.sweep.recommend import schedule


@given(st.dictionaries(st.integers(1, 64), st.integers(0, 8), min_size=1), st.integers(64, 512))
def test_it_has_the_form_that_vllm_takes(by_load, most):
    found = for_vllm(schedule(by_load, most))

    if not any(by_load.values()):
        assert found is None  # vLLM refuses num_speculative_tokens 0
        return
    parts = found["num_speculative_tokens_per_batch_size"]
    assert found["num_speculative_tokens"] == max(k for _, _, k in parts) > 0
    assert parts[0][0] == 1
    assert all(first <= last and k >= 0 for first, last, k in parts)
    assert all(one[1] < other[0] for one, other in pairwise(parts))
