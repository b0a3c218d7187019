"""`specdecode vault`: what it locks, in which order, and what it refuses."""

from __future__ import annotations

import json
import subprocess

import pytest

from specdecode.governance.canonical import sha256_hex
from specdecode.governance.vault import _unlock, read_vault
from specdecode.governance.vault_key import read_share
from specdecode.models.fingerprint import tokenizer_sha256
from specdecode.workload.split import RESERVE
from tests.workload.examples import compiled, prompt, prompt_set, scrambled


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
            *("vault", "lock", prompts, "--out", out, "--key", key, "--order-seed", seed),
            *("--no-plain", "--json"),
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
    page = read_vault(out).manifest
    assert page.compared.prompts == len(rows) - page.count
    assert (page.compared.jaccard_limit, page.compared.overlap_limit) == (0.7, 0.5)


def test_lock_does_not_believe_that_the_other_half_is_not_public(
    specdecode, tmp_path, key, prompts
):
    done = specdecode(
        *("vault", "lock", prompts, "--out", tmp_path / "vault", "--key", key),
        *("--params", tmp_path / "params.yaml", "--no-plain"),
    )

    assert done.code == 2
    assert "the half that is not locked is public" in done.err


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
        *("--key", key, "--order-seed", 1, "--no-plain"),
    )

    assert done.code == 2
    assert "odd.jsonl, line 1, field 'category'" in done.err
    assert not (tmp_path / "vault").exists()


@pytest.fixture
def lock(specdecode, tmp_path, key, monkeypatch):
    """Lock these prompts beside those public ones: lock([…], [public], "--option")."""
    monkeypatch.chdir(tmp_path)

    def write(name, prompts):
        lines = (prompt.model_dump_json(by_alias=True) for prompt in prompts)
        (tmp_path / name).write_text("\n".join(lines), encoding="utf-8")
        return name

    def run(prompts, public, *options):
        return specdecode(
            *("vault", "lock", write("held.jsonl", prompts), "--out", "vault", "--key", key),
            *("--order-seed", 1, "--plain", write("public.jsonl", public), *options),
        )

    return run


def test_lock_says_in_public_what_it_compared_with_and_how_much_was_alike(lock, tmp_path):
    public = [prompt("old", "the cat sat on the red mat"), *prompt_set(1)]
    done = lock([prompt("new", "the cat sat on the blue mat today")], public)
    found = read_vault(tmp_path / "vault").manifest.compared

    assert done.code == 0, done.err
    assert found.files == {"public.jsonl": sha256_hex((tmp_path / "public.jsonl").read_bytes())}
    assert found.prompts == len(public)
    assert (found.largest_overlap, found.overlap_limit, found.jaccard_limit) == (0, 0, 0.6)
    assert 0.4 < found.largest_jaccard < 0.6
    assert f"compared with {len(public)} public prompts" in done.out.replace("\n", " ")


RUN = scrambled("run", 13)


@pytest.mark.parametrize(
    ("public", "why"),
    [
        (prompt("new", "another text"), "ids of their own"),
        (prompt("old", f"{RUN} {scrambled('old', 60)}"), "13-word runs"),
        (prompt("old", f"{RUN} and so on"), "13-word runs"),
        (prompt("old", f"{' '.join(RUN.split()[:12])} {RUN.split()[12]}s on"), "nearly a public"),
    ],
)
def test_lock_refuses_a_prompt_that_is_public(lock, tmp_path, public, why):
    done = lock([prompt("new", f"{RUN} and on")], [public])

    assert done.code == 2
    assert why in done.err
    assert "[new]" in done.err
    assert RUN.split()[0] not in done.err
    assert not (tmp_path / "vault").exists()


def test_lock_refuses_a_prompt_without_the_checker_that_its_category_has_in_public(lock, tmp_path):
    checked = {"reference": ["yes"], "checker": {"type": "exact", "answers": ["yes"]}}
    done = lock([prompt("new")], [prompt("old", **checked)])

    assert done.code == 2
    assert "no checker, although the category promises one" in done.err
    assert not (tmp_path / "vault").exists()


def test_lock_refuses_a_reference_that_its_own_checker_refuses(lock, tmp_path):
    wrong = {"reference": ["no"], "checker": {"type": "exact", "answers": ["yes"]}}
    done = lock([prompt("new", **wrong)], [prompt("old")])

    assert done.code == 2
    assert "a reference fails its own checker" in done.err
    assert not (tmp_path / "vault").exists()


@pytest.mark.parametrize("plain", [(), ("--plain", "public.jsonl", "--no-plain")])
def test_lock_wants_to_know_what_is_public(specdecode, tmp_path, key, prompts, plain):
    done = specdecode(
        *("vault", "lock", prompts, "--out", tmp_path / "vault", "--key", key),
        *("--order-seed", 1, *plain),
    )

    assert done.code == 2
    assert "name the public prompts" in done.err
    assert not (tmp_path / "vault").exists()


def test_lock_says_when_nothing_was_compared_and_no_length_checked(
    specdecode, tmp_path, key, prompts
):
    done = specdecode(
        *("vault", "lock", prompts, "--out", tmp_path / "vault", "--key", key),
        *("--order-seed", 1, "--no-plain"),
    )
    page = read_vault(tmp_path / "vault").manifest

    assert (page.compared, page.room, page.custody) == (None, None, "held")
    assert "compared with nothing" in done.out
    assert "lengths not checked" in done.out


def test_lock_checks_that_prompt_and_reply_fit_the_target(lock, tmp_path, tiny_target):
    context = json.loads((tiny_target / "config.json").read_text())["max_position_embeddings"]
    prompts, public = [prompt("short", "the"), prompt("long", "the red house")], [prompt("old")]
    long = lock(prompts, public, "--target", tiny_target, "--reply-tokens", context - 2)

    assert long.code == 2
    assert "1 prompts exceed" in long.err
    assert not (tmp_path / "vault").exists()
    assert lock(prompts, public, "--target", tiny_target, "--reply-tokens", 8).code == 0
    room = read_vault(tmp_path / "vault").manifest.room
    assert (room.context_tokens, room.reply_tokens) == (context, 8)
    assert room.longest_prompt_tokens == 3
    assert room.tokenizer_sha256 == tokenizer_sha256(tiny_target)


def test_a_key_in_the_vaults_repository_holds_nothing_back(lock, tmp_path, key):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    prompts, public = [prompt("new")], [prompt("old")]
    refused = lock(prompts, public)

    assert refused.code == 2
    assert "whoever clones one has both" in refused.err
    assert not (tmp_path / "vault").exists()
    key.chmod(0o644)
    shown = lock(prompts, public, "--demonstration")
    assert shown.code == 0, shown.err
    assert "held out by agreement only" in shown.out.replace("\n", " ")
    assert read_vault(tmp_path / "vault").manifest.custody == "demonstration"


def test_a_key_that_others_may_read_locks_no_set_that_is_held(lock, tmp_path, key):
    key.chmod(0o644)
    done = lock([prompt("new")], [prompt("old")])

    assert done.code == 2
    assert "others may read this key" in done.err
    assert not (tmp_path / "vault").exists()
