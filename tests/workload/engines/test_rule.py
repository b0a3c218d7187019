"""Configurations that change what a server emits are refused where they can be seen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specdecode.governance.lints import lossy
from specdecode.workload.engines import ENGINES, LossyEngineError
from specdecode.workload.engines.rule import acceptance_rule
from specdecode.workload.engines.sglang import _EXACT as SGLANG_EXACT
from specdecode.workload.engines.unknown import Unknown
from specdecode.workload.engines.vllm import EXACT as VLLM_EXACT
from tests.wire.engines import ALL, LLAMA_CPP, OWN, SGLANG, VLLM
from tests.workload.engines.asking import facts, served

VLLM_INFO = "/server_info?config_format=json"


def vllm(**speculative):
    config = {"method": "draft_model", "num_speculative_tokens": 3, **speculative}
    answers = facts(**{VLLM_INFO: {"vllm_config": {"speculative_config": config}}})
    return ENGINES["vllm"].rule(answers)


def sglang(**options):
    return ENGINES["sglang"].rule(
        facts(**{"/server_info": {**SGLANG.about["/server_info"], **options}})
    )


class TestVllm:
    @pytest.mark.parametrize("value", [None, "standard", "block"])
    def test_exact(self, value):
        assert vllm(rejection_sample_method=value).seen == "clean"

    @pytest.mark.parametrize("value", ["synthetic", "fly", "probabilistic", "new-one", True, 1, ""])
    def test_lossy_or_not_known_to_be_exact(self, value):
        found = vllm(rejection_sample_method=value)

        assert found.seen == "lossy"
        assert "rejection_sample_method" in found.findings[0]

    @pytest.mark.parametrize(
        "options",
        [
            {"synthetic_acceptance_rates": [0.9]},
            {"synthetic_acceptance_length": 2.0},
            {"acceptance_method": "typical_acceptance_sampler"},
            {"posterior_threshold": 0.09},
            {"verifier_accept_k": 2},
            {"accept_tolerance": 0.1},
            {"speculators_config": {"proposal_methods": [{"verifier_accept_k": 4}]}},
        ],
    )
    def test_other_ways_to_be_lossy_however_deep(self, options):
        assert vllm(**options).seen == "lossy"

    @pytest.mark.parametrize(
        "options",
        [
            {"synthetic_acceptance_rates": None},
            {"synthetic_acceptance_rates": []},
            {"verifier_accept_k": 1},
            {"accept_tolerance": 0.0},
            {"posterior_alpha": None},
        ],
    )
    def test_what_is_switched_off(self, options):
        assert vllm(**options).seen == "clean"

    def test_a_configuration_that_cannot_be_looked_into_is_hidden(self):
        config = {"vllm_config": {"speculative_config": "SpeculativeConfig(method='ngram')"}}

        assert ENGINES["vllm"].rule(facts(**{VLLM_INFO: config})).seen == "hidden"

    def test_no_speculation_at_all_is_clean(self):
        config = {"vllm_config": {"speculative_config": None}}

        assert ENGINES["vllm"].rule(facts(**{VLLM_INFO: config})).seen == "clean"

    def test_without_developer_mode_it_is_hidden_not_clean(self):
        found = ENGINES["vllm"].rule(served(VLLM))

        assert found.seen == "hidden"
        assert "VLLM_SERVER_DEV_MODE" in found.findings[0]

    def test_a_configuration_that_did_not_come_is_not_blamed_on_the_mode(self):
        late = "no whole answer within 5 s; is the server stuck?"
        answers = replace(served(VLLM), failures={VLLM_INFO: late})
        found = ENGINES["vllm"].rule(answers)

        assert found.seen == "hidden"
        assert "is the server stuck" in found.findings[0]
        assert "DEV_MODE" not in found.findings[0]


class TestSglang:
    def test_exact(self):
        assert sglang().seen == "clean"

    @pytest.mark.parametrize("name", ["single", "acc"])
    @pytest.mark.parametrize("value", [0.9, 0, None, "1.0", True])
    def test_a_threshold_that_is_not_one(self, name, value):
        assert sglang(**{f"speculative_accept_threshold_{name}": value}).seen == "lossy"

    @pytest.mark.parametrize("name", ["single", "acc"])
    def test_a_threshold_that_a_version_no_longer_shows_is_hidden_not_clean(self, name):
        info = dict(SGLANG.about["/server_info"])
        del info[f"speculative_accept_threshold_{name}"]

        assert ENGINES["sglang"].rule(facts(**{"/server_info": info})).seen == "hidden"

    def test_a_threshold_that_is_no_number_is_lossy(self):
        info = '{"speculative_accept_threshold_single": NaN}'

        assert ENGINES["sglang"].rule(facts(**{"/server_info": info})).seen == "lossy"


class TestOthers:
    def test_our_own_server_is_clean(self):
        assert ENGINES["specdecode"].rule(served(OWN)).seen == "clean"

    def test_our_own_server_that_does_not_show_its_options(self):
        assert ENGINES["specdecode"].rule(served(OWN, **{"/server_info": None})).seen == "hidden"

    def llama(self, **params):
        props = {**LLAMA_CPP.about["/props"]}
        props["default_generation_settings"] = {"n_ctx": 1, "params": params}
        return ENGINES["llama.cpp"].rule(facts(**{"/props": props}))

    def test_llama_cpp_never_shows_enough(self):
        assert self.llama().seen == "hidden"
        assert self.llama(**{"speculative.synth_rates": [], "speculative.synth_len": -1}).seen == (
            "hidden"
        )
        assert self.llama(**{"speculative.p_min": 0.75}).seen == "hidden"

    @pytest.mark.parametrize(
        "params",
        [
            {"speculative.spec_synth_acc": 0.9},
            {"speculative.synth_rates": [0.9]},
            {"speculative.synth_len": 2.5},
            {"speculative.p_min": 0.75, "speculative.sampling": "probabilistic"},
        ],
    )
    def test_llama_cpp_may_show_something_lossy(self, params):
        assert self.llama(**params).seen == "lossy"

    @pytest.mark.parametrize("wire", [pytest.param(w, id=w.name) for w in ALL])
    def test_silence_is_never_clean(self, wire):
        assert ENGINES[wire.name].rule(facts()).seen == "hidden"


class TestRefusal:
    def test_lossy_is_refused_by_name_and_value(self):
        with pytest.raises(LossyEngineError, match=r"vllm may emit.*'synthetic'.*exact acceptance"):
            vllm(rejection_sample_method="synthetic").refuse_lossy("vllm")

    @pytest.mark.parametrize("options", [{}, Unknown("no")])
    def test_what_is_not_seen_to_be_lossy_is_not_refused(self, options):
        acceptance_rule(options, {}).refuse_lossy("x")


class TestPlanAgrees:
    """The lint of plans and the reading of servers must call the same things exact."""

    VALUES = (
        None,
        True,
        False,
        0,
        1,
        0.0,
        1.0,
        0.5,
        2,
        "standard",
        "block",
        "synthetic",
        "rejection_sampler",
        "typical_acceptance_sampler",
        "",
    )

    @pytest.mark.parametrize(("engine", "exact"), [("vllm", VLLM_EXACT), ("sglang", SGLANG_EXACT)])
    def test_on_every_setting_of_the_lint(self, engine, exact):
        for name, of_plan in lossy._EXACT[engine].items():
            for value in self.VALUES:
                assert exact[name](value) == of_plan(value), (name, value)

    def test_on_the_parts_of_names(self):
        from specdecode.workload.engines import rule

        assert rule._PARTS == lossy._PARTS
