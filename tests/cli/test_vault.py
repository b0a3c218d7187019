"""`specdecode vault`: what it locks, in which order, and what it refuses."""

from __future__ import annotations

import json

import pytest

from specdecode.governance.vault import _unlock, read_vault
from specdecode.governance.vault_key import read_share
from specdecode.workload.split import RESERVE
from tests.workload.examples import compiled, prompt_set


@pytest.fixture
def key(specdecode, tmp_path):
    made = specdecode("vault", "key", tmp_path / "holder.key", "--json")
    assert made.code == 0
    return tmp_path / "holder.key"


@pytest.fixture
def prompts(tmp_path):
    lines = [prompt.model_dump_json(by_alias=True) for prompt in prompt_set(2)]
    (tmp_path / "prompts.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return tmp_path / "prompts.jsonl"


def locked_ids(folder, *keys):
    vault = read_vault(folder)
    unlocked = _unlock(vault, [read_share(path) for path in keys])
    return [unlocked.row(i)["question_id"] for i in range(vault.manifest.count)]


def test_key_names_itself_and_is_never_overwritten(specdecode, key):
    again = specdecode("vault", "key", key)

    assert again.code == 2
    assert "exists" in again.err


def test_lock_takes_every_prompt_in_an_order_drawn_by_the_seed(specdecode, tmp_path, key, prompts):
    orders = []
    for seed in (1, 1, 2):
        out = tmp_path / f"vault{len(orders)}"
        done = specdecode(
            "vault", "lock", prompts, "--out", out, "--key", key, "--order-seed", seed, "--json"
        )
        assert done.code == 0
        assert done.document["count"] == 36
        assert done.document["strata"]["category"] == {
            "arithmetic": 12,
            "chat": 12,
            "translate": 12,
        }
        orders.append(locked_ids(out, key))

    assert sorted(orders[0]) == sorted(p.prompt_id for p in prompt_set(2))
    assert orders[0] == orders[1] != orders[2]


def test_lock_takes_the_half_that_the_compiled_table_keeps_in_reserve(
    specdecode, tmp_path, key, prompts
):
    params = {
        "prompts": {
            "first_turn_only": False,
            "split_seed": 1,
            "order_seed": 2,
            "near_duplicate_jaccard": 0.7,
            "near_duplicate_overlap": 0.5,
        }
    }
    (tmp_path / "params.yaml").write_text(json.dumps(params), encoding="utf-8")
    out = tmp_path / "vault"
    done = specdecode(
        "vault", "lock", prompts, "--out", out, "--key", key, "--params", tmp_path / "params.yaml"
    )
    rows = compiled(prompt_set(2), split_seed=1, order_seed=2).to_pylist()

    assert done.code == 0
    assert locked_ids(out, key) == [r["prompt_id"] for r in rows if r["split"] == RESERVE]
    assert "Remove their plain text" in done.out


@pytest.mark.parametrize("content", ["prompts: {split_seed: 1}", "- 1", "prompts: 3"])
def test_lock_refuses_parameters_that_are_none(specdecode, tmp_path, key, prompts, content):
    (tmp_path / "params.yaml").write_text(content, encoding="utf-8")
    done = specdecode(
        *("vault", "lock", prompts, "--out", tmp_path / "vault", "--key", key),
        *("--params", tmp_path / "params.yaml"),
    )

    assert done.code == 2
    assert "params.yaml: prompts: not the parameters of a run" in done.err
    assert not (tmp_path / "vault").exists()


@pytest.mark.parametrize("options", [(), ("--order-seed", 1, "--params", "p.yaml")])
def test_lock_wants_to_know_which_prompts_in_which_order(
    specdecode, tmp_path, key, prompts, options
):
    done = specdecode("vault", "lock", prompts, "--out", tmp_path / "vault", "--key", key, *options)

    assert done.code == 2
    assert "pass --order-seed to lock all" in done.err


def test_lock_refuses_what_is_no_prompt(specdecode, tmp_path, key):
    (tmp_path / "odd.jsonl").write_text('{"question_id": "a"}', encoding="utf-8")
    done = specdecode(
        *("vault", "lock", tmp_path / "odd.jsonl", "--out", tmp_path / "vault"),
        *("--key", key, "--order-seed", 1),
    )

    assert done.code == 2
    assert "odd.jsonl, line 1, field 'category'" in done.err
    assert not (tmp_path / "vault").exists()
