"""Our forward passes against transformers' own, and rollback against starting afresh."""

from __future__ import annotations

import pytest
import torch

from specdecode.errors import ConfigError, ModelMismatchError
from specdecode.models import KVCache, load_model
from specdecode.models.generic import TransformersNetwork, refuse_unsupported
from specdecode.models.linear import (
    dense,
    fastest_exact,
    int4,
    int4_rounded,
    int8,
    int8_rounded,
    packed,
    rescored,
)
from specdecode.models.llama import LlamaNetwork
from tests.tiny_models import CONFIGS, write_tiny_model


def networks(kind, folder):
    model = load_model(write_tiny_model(folder, kind), device="cpu", dtype="float64")
    yield model, TransformersNetwork(model.module)
    if kind == "llama":
        yield model, LlamaNetwork(model.module, dense, dense)


@pytest.fixture(params=["llama-generic", "llama-fused", "qwen2", "gpt2"])
def pair(request, tmp_path):
    kind, _, variant = request.param.partition("-")
    found = list(networks(kind, tmp_path))
    return found[1 if variant == "fused" else 0]


def reference(model, ids):
    with torch.inference_mode():
        return model.module(input_ids=ids).logits


IDS = torch.tensor([[3, 5, 7, 9, 11, 4, 6, 8], [8, 6, 4, 3, 2, 10, 12, 5]])


def test_one_pass_equals_transformers(pair):
    model, network = pair

    logits = network.forward(IDS, [0, 0], KVCache(2, 8))

    torch.testing.assert_close(logits, reference(model, IDS).float())


def test_rows_of_different_length_continue_in_one_batch(pair):
    model, network = pair
    expected = reference(model, IDS).float()
    cache = KVCache(2, 8)
    network.forward(IDS[:, :5], [0, 0], cache)

    step = torch.stack([IDS[0, 5:8], IDS[1, 3:6]])
    logits = network.forward(step, [5, 3], cache)

    torch.testing.assert_close(logits[0], expected[0, 5:8])
    torch.testing.assert_close(logits[1], expected[1, 3:6])


def test_rejected_tokens_leave_no_trace(pair):
    model, network = pair
    cache = KVCache(1, 8)
    network.forward(IDS[:1, :4], [0], cache)
    network.forward(torch.tensor([[12, 12, 12, 12]]), [4], cache)  # all rejected

    logits = network.forward(IDS[:1, 4:], [4], cache)

    torch.testing.assert_close(logits[0], reference(model, IDS).float()[0, 4:])


def test_select_returns_the_rows_asked_for(pair):
    model, network = pair

    logits = network.forward(IDS, [0, 0], KVCache(2, 8), select=[[7, 0], [2, 3]])

    expected = reference(model, IDS).float()
    torch.testing.assert_close(logits[0], expected[0, [7, 0]])
    torch.testing.assert_close(logits[1], expected[1, [2, 3]])


def test_remaining_rows_keep_their_state(pair):
    model, network = pair
    cache = KVCache(2, 8)
    network.forward(IDS[:, :6], [0, 0], cache)

    cache.keep_rows([1])
    logits = network.forward(IDS[1:, 6:], [6], cache)

    torch.testing.assert_close(logits[0], reference(model, IDS).float()[1, 6:])


def test_a_position_beyond_the_cache_is_refused(pair):
    _, network = pair
    with pytest.raises(ConfigError, match="4 slots, position 7"):
        network.forward(IDS, [0, 0], KVCache(2, 4))


@pytest.mark.parametrize("kind", ["llama", "qwen2", "gpt2"])
def test_early_exit_equals_a_model_of_that_depth(kind, tmp_path):
    model = load_model(write_tiny_model(tmp_path, kind), device="cpu", dtype="float64")
    network = model.build_network(fastest_exact, fastest_exact, layers=2)
    shallow = TransformersNetwork(model.module, layers=2)

    torch.testing.assert_close(
        network.forward(IDS, [0, 0], KVCache(2, 8)), shallow.forward(IDS, [0, 0], KVCache(2, 8))
    )
    assert model.config.num_hidden_layers == 3  # the target itself is untouched


@pytest.mark.parametrize("make", [int4, int8], ids=["int4", "int8"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_quantised_products_stay_near_the_weights(make, dtype):
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(64, 96, generator=generator).to(dtype)
    x = torch.randn(3, 2, 96, generator=generator).to(dtype)

    exact, rounded = dense(weight)(x).float(), make(weight)(x).float()

    error = (rounded - exact).norm() / exact.norm()
    assert rounded.shape == exact.shape
    assert 0 < error < (0.12 if make is int4 else 0.02)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize(
    ("kernel", "portable"), [(int4, int4_rounded), (int8, int8_rounded)], ids=["int4", "int8"]
)
def test_a_quantised_kernel_and_its_portable_form_compute_the_same(kernel, portable, dtype):
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(64, 96, generator=generator).bfloat16().to(dtype)
    x = torch.randn(5, 2, 96, generator=generator).bfloat16().to(dtype)

    found, expected = kernel(weight)(x), portable(weight.float())(x.float())

    assert found.dtype == dtype
    torch.testing.assert_close(found.float(), expected, rtol=0.03, atol=0.15)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.bfloat16, 0.02), (torch.float32, 1e-5)])
def test_packed_products_equal_plain_ones(dtype, tolerance):
    if dtype == torch.bfloat16 and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        pytest.skip("this processor has no bfloat16 products in oneDNN")
    generator = torch.Generator().manual_seed(4)
    weight = torch.randn(48, 32, generator=generator).to(dtype)
    x = torch.randn(5, 32, generator=generator).to(dtype)

    found, expected = packed(weight)(x), dense(weight)(x)

    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    "change",
    [
        {"sliding_window": 8, "use_sliding_window": True},
        {"layer_types": ["full_attention", "linear_attention", "full_attention"]},
        {"is_encoder_decoder": True},
    ],
    ids=["sliding window", "hybrid", "encoder-decoder"],
)
def test_state_that_cannot_be_rolled_back_is_refused(change):
    config = CONFIGS["qwen2"]()
    for name, value in change.items():
        setattr(config, name, value)

    with pytest.raises(ModelMismatchError, match="cannot be rolled back"):
        refuse_unsupported(config)


@pytest.mark.parametrize("rows", [1, 3])
def test_a_rescored_head_is_exact_where_it_leads_and_coarse_elsewhere(rows):
    generator = torch.Generator().manual_seed(3)
    weight = torch.randn(640, 64, generator=generator)
    x = torch.randn(2, rows, 64, generator=generator)
    coarse, exact = int4(weight)(x), dense(weight)(x)

    found = rescored(int4, best=50)(weight)(x)

    leading = torch.zeros_like(found, dtype=torch.bool)
    leading.scatter_(-1, coarse.topk(50).indices, value=True)
    torch.testing.assert_close(found[leading], exact[leading])
    assert torch.equal(found[~leading], coarse[~leading])


def test_a_rescored_head_of_a_small_vocabulary_is_exact():
    generator = torch.Generator().manual_seed(5)
    weight, x = torch.randn(96, 64, generator=generator), torch.randn(1, 1, 64, generator=generator)

    torch.testing.assert_close(rescored(int4)(weight)(x), dense(weight)(x))
