"""Load, memory, version and options, as far as each engine tells them."""

from __future__ import annotations

import dataclasses
import hashlib
import json

import pytest

from specdecode.workload.engines import ENGINES, ServerState
from specdecode.workload.engines.state import shown
from tests.wire.engines import ALL, GENERIC, LLAMA_CPP, OWN, SGLANG, TENSORRT_LLM, TGI, VLLM, models
from tests.wire.metrics import sglang_metrics, trtllm_metrics, vllm_metrics
from tests.wire.replies import error_reply
from tests.workload.engines.asking import facts, served

vllm = ENGINES["vllm"]
TOLD = [f.name for f in dataclasses.fields(ServerState) if f.name not in ("models", "unknown")]


def state(wire, **changes):
    return ENGINES[wire.name].state(served(wire, **changes))


class TestWhatEachEngineTells:
    @pytest.mark.parametrize("wire", [pytest.param(w, id=w.name) for w in ALL])
    def test_every_none_has_its_reason(self, wire):
        found = state(wire)

        assert {name for name in TOLD if getattr(found, name) is None} == set(found.unknown)
        assert found.models == ("m",)

    @pytest.mark.parametrize("wire", [pytest.param(w, id=w.name) for w in ALL])
    def test_a_server_that_says_nothing_has_a_reason_for_everything(self, wire):
        found = ENGINES[wire.name].state(facts())

        assert set(found.unknown) == set(TOLD)

    def test_vllm_tells_everything(self):
        found = state(VLLM)

        assert found.unknown == {}
        assert (found.ready, found.version, found.context_length) == (True, "0.32.0", 4096)
        assert (found.kv_cache_usage, found.kv_cache_tokens) == (0.25, 1600)
        assert (found.running, found.queued, found.preemptions) == (2, 1, 1)
        assert (found.prefix_queried_tokens, found.prefix_hit_tokens) == (5, 2)
        assert found.options["cache_config"]["enable_prefix_caching"] == "True"

    def test_our_server_tells_its_options_too(self):
        found = state(OWN)

        assert found.options["verification"] == "block"
        assert found.options["cache_config"]["block_size"] == "16"
        assert found.context_length == 2048

    def test_sglang(self):
        found = state(SGLANG)

        assert (found.ready, found.version, found.context_length) == (True, "0.5.23", 4096)
        assert (found.kv_cache_usage, found.kv_cache_tokens) == (0.25, 1600)
        assert (found.running, found.queued, found.preemptions) == (2, 1, 1)
        assert found.options["speculative_algorithm"] == "EAGLE3"
        assert found.unknown == {}

    def test_sglang_with_several_ranks(self):
        info = {
            **SGLANG.about["/server_info"],
            "max_total_num_tokens": None,
            "internal_states": [{"max_total_num_tokens": 100}, {"max_total_num_tokens": 200}],
        }

        assert state(SGLANG, **{"/server_info": info}).kv_cache_tokens == 300

    def test_sglang_capacity_by_its_gauge(self):
        info = {**SGLANG.about["/server_info"], "max_total_num_tokens": None}

        assert state(SGLANG, **{"/server_info": info}).kv_cache_tokens == 1600

    def test_sglang_shows_at_the_top_what_one_of_its_engines_holds(self):
        info = {**SGLANG.about["/server_info"], "dp_size": 2}
        ranks = [{"dp_rank": "0"}, {"dp_rank": "1"}]
        found = state(SGLANG, **{"/server_info": info, "/metrics": sglang_metrics(1, ranks)})

        assert found.kv_cache_tokens == 3200
        assert (found.running, found.queued, found.preemptions) == (4, 2, 2)

    def test_context_lengths_of_several_engines_are_not_added_up(self):
        each = {"context_length": 4096, "max_total_num_tokens": 100}
        info = {**SGLANG.about["/server_info"], "internal_states": [each, each]}

        assert state(SGLANG, **{"/server_info": info}).context_length == 4096

    def test_stages_of_one_engine_share_its_requests(self):
        ranks = [{"tp_rank": "0", "pp_rank": "0"}, {"tp_rank": "0", "pp_rank": "1"}]
        found = state(SGLANG, **{"/metrics": sglang_metrics(1, ranks)})

        assert (found.running, found.queued, found.preemptions) == (None,) * 3
        assert "several ranks" in found.unknown["running"]
        assert found.kv_cache_usage == 0.25

    def test_a_total_beside_its_priorities_is_not_counted_twice(self):
        ranks = [{"tp_rank": "0", "priority": p} for p in ("", "0", "10")]
        found = state(SGLANG, **{"/metrics": sglang_metrics(1, ranks)})

        assert (found.running, found.queued) == (2, 1)

    def test_llama_cpp(self):
        found = state(LLAMA_CPP)

        assert (found.ready, found.version, found.context_length) == (True, "b9999-abcdef0", 4096)
        assert (found.running, found.queued) == (2, 1)
        assert found.options["slots_that_speculate"] == 2
        assert (found.prefix_queried_tokens, found.prefix_hit_tokens) == (5, 2)
        assert set(found.unknown) == {"kv_cache_usage", "kv_cache_tokens", "preemptions"}

    def test_an_older_llama_cpp_told_the_use_of_its_cache(self):
        old = LLAMA_CPP.about["/metrics"] + "llamacpp:kv_cache_usage_ratio 0.5\n"

        assert state(LLAMA_CPP, **{"/metrics": old}).kv_cache_usage == 0.5

    def test_tgi(self):
        found = state(TGI)

        assert (found.version, found.context_length, found.kv_cache_tokens) == (
            "3.3.6",
            4096,
            16000,
        )
        assert (found.running, found.queued) == (2, 1)

    def test_tensorrt_llm(self):
        found = state(TENSORRT_LLM)

        assert (found.ready, found.version, found.context_length) == (True, "1.2.0", 4096)
        assert (found.kv_cache_usage, found.kv_cache_tokens) == (0.25, 1600)
        assert (found.running, found.queued) == (2, 1)
        assert found.options["speculative_config"]["spec_method"] == "Eagle3"

    def test_what_a_process_of_tensorrt_llm_left_behind_is_not_added(self):
        old = trtllm_metrics().replace('pid="7"', 'pid="6"')
        found = state(TENSORRT_LLM, **{"/prometheus/metrics": trtllm_metrics(0) + old})

        assert (found.running, found.kv_cache_tokens) == (None, None)
        assert "2 processes" in found.unknown["running"]

    def test_entries_that_reading_takes_away_are_left_to_the_server(self):
        assert "/metrics" not in ENGINES["tensorrt-llm"].paths

    def test_generic_tells_its_context_with_luck(self):
        assert state(GENERIC, **{"/v1/models": models("x", max_model_len=7)}).context_length == 7


class TestVllmCache:
    def capacity(self, *engines):
        lines = [f"vllm:cache_config_info{{{labels}}} 1.0" for labels in engines]
        return vllm.state(facts(**{"/metrics": "\n".join([*lines, ""])}))

    def test_newer_versions_say_it_in_tokens(self):
        labels = 'block_size="8",num_gpu_blocks="320",kv_cache_size_tokens="463459"'

        assert self.capacity(labels).kv_cache_tokens == 463459

    def test_older_ones_in_blocks(self):
        assert self.capacity('block_size="16",num_gpu_blocks="573"').kv_cache_tokens == 9168

    def test_all_engines_together(self):
        labels = 'block_size="16",num_gpu_blocks="10",engine="{}"'

        assert self.capacity(labels.format(0), labels.format(1)).kv_cache_tokens == 320

    @pytest.mark.parametrize(
        "labels",
        [
            'block_size="16",num_gpu_blocks="None"',
            'block_size="16"',
            'block_size="16",num_gpu_blocks="10",mamba_block_size="32"',
            f'kv_cache_size_tokens="{"9" * 400}"',
        ],
    )
    def test_what_cannot_be_known(self, labels):
        found = self.capacity(labels)

        assert found.kv_cache_tokens is None
        assert "vllm:cache_config_info" in found.unknown["kv_cache_tokens"]

    def test_the_fullest_engine_counts(self):
        text = (
            'vllm:kv_cache_usage_perc{engine="0"} 0.1\nvllm:kv_cache_usage_perc{engine="1"} 0.9\n'
        )

        assert vllm.state(facts(**{"/metrics": text})).kv_cache_usage == 0.9

    @pytest.mark.parametrize("value", ["NaN", "1.5", "-0.1", "+Inf"])
    def test_what_is_no_share(self, value):
        found = vllm.state(facts(**{"/metrics": f"vllm:kv_cache_usage_perc {value}\n"}))

        assert found.kv_cache_usage is None

    def test_the_name_before_0_9(self):
        found = vllm.state(facts(**{"/metrics": "vllm:gpu_cache_usage_perc 0.5\n"}))

        assert found.kv_cache_usage == 0.5

    def test_developer_mode_shows_all_options(self):
        info = {"vllm_config": {"speculative_config": {"method": "ngram"}}}
        path = "/server_info?config_format=json"

        assert state(VLLM, **{path: info}).options["speculative_config"] == {"method": "ngram"}


class TestDamage:
    """Answers that are JSON and still hurt whoever walks through them or keeps them."""

    @pytest.mark.parametrize("wire", [pytest.param(w, id=w.name) for w in ALL])
    def test_nested_without_end(self, wire):
        deep = '{"a":' * 900 + "1" + "}" * 900
        answers = dict.fromkeys([p for p in wire.about if p != "/metrics"], deep)
        asked = facts(**answers)

        assert ENGINES[wire.name].state(asked).options is None
        assert ENGINES[wire.name].rule(asked).seen == "hidden"

    def test_numbers_that_json_does_not_have(self):
        info = '{"speculative_algorithm": "X", "max_total_num_tokens": NaN, "a": -Infinity}'
        found = ENGINES["sglang"].state(facts(**{"/server_info": info}))

        assert found.kv_cache_tokens is None
        json.dumps(found.options, allow_nan=False)


class TestReady:
    @pytest.mark.parametrize(("status", "expected"), [(503, False), (404, None), (500, None)])
    def test_by_status(self, status, expected):
        assert state(VLLM, **{"/health": error_reply(status, "x")}).ready is expected


class TestContext:
    def test_models_that_differ(self):
        two = {"data": [{"id": "a", "max_model_len": 1}, {"id": "b", "max_model_len": 2}]}
        found = vllm.state(facts(**{"/v1/models": two}))

        assert found.context_length is None
        assert "several" in found.unknown["context_length"]

    @pytest.mark.parametrize("data", [None, "x", [1], [{"id": 1}], [{"max_model_len": []}]])
    def test_a_list_of_models_that_is_damaged(self, data):
        assert vllm.state(facts(**{"/v1/models": {"data": data}})).context_length is None


class TestShown:
    @pytest.mark.parametrize(
        "name",
        ["api_key", "admin_api_key", "ssl_keyfile_password", "hf_token", "secret", "API_KEY"],
    )
    def test_secrets_are_left_out(self, name):
        assert shown({"a": {name: "hunter2"}}) == {"a": {name: "(left out)"}}
        assert "hunter2" not in str(shown({name: ["hunter2"]}))

    def test_a_number_of_tokens_is_no_secret(self):
        assert shown({"kv_cache_size_tokens": "8192"}) == {"kv_cache_size_tokens": "8192"}
        assert shown({"hf_token": "8192"}) == {"hf_token": "(left out)"}

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("max_total_tokens", 7),
            ("eos_token", "</s>"),
            ("speculative_token_map", "x"),
            ("api_key", None),
            ("api_key", ""),
            ("num_speculative_tokens", 3),
        ],
    )
    def test_what_is_no_secret_stays(self, name, value):
        assert shown({name: value}) == {name: value}

    def test_the_key_of_sglang_is_not_kept(self):
        assert "hunter2" not in str(state(SGLANG).options)

    def test_long_texts_are_kept_by_their_hash(self):
        template = "x" * 5000

        assert state(LLAMA_CPP).options["chat_template"] == (
            "sha256:" + hashlib.sha256(template.encode()).hexdigest()
        )

    def test_gauges_of_all_engines_are_summed(self):
        assert state(VLLM, **{"/metrics": vllm_metrics(engines=8)}).running == 16
