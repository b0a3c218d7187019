"""How drafting went in one request, from the reply of each engine and each of its versions."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdecode.workload.engines import ENGINES, error_of
from tests.wire.engines import ALL, GENERIC, LLAMA_CPP, OWN, SGLANG, TGI, VLLM
from tests.wire.metrics import ACCEPTED, DRAFTED, HISTOGRAM, STEPS
from tests.wire.proxies import stripped

vllm, sglang, llama = ENGINES["vllm"], ENGINES["sglang"], ENGINES["llama.cpp"]
STATS = VLLM.extra["metrics"]["speculative_decoding"]
DETAILS = SGLANG.extra["sglext"]["spec_tokens_details"]

TELLING = [pytest.param(w, id=w.name) for w in (OWN, VLLM, SGLANG)]


def told(counts):
    return (counts.steps, counts.drafted, counts.accepted, counts.histogram)


KNOWN = (STEPS, DRAFTED, ACCEPTED, tuple(HISTOGRAM))
NOTHING = (None, None, None, None)


class TestCurrentShapes:
    @pytest.mark.parametrize("wire", TELLING)
    @pytest.mark.parametrize("way", ["body", "chunks"])
    def test_everything_is_told(self, wire, way):
        payloads = [wire.body()] if way == "body" else wire.chunks()
        counts = ENGINES[wire.name].of_reply(payloads, "1.2.3")

        assert told(counts) == KNOWN
        assert counts.derived == {}
        assert counts.source.startswith(f"{wire.name} 1.2.3: ")

    @pytest.mark.parametrize("payloads", [[LLAMA_CPP.body()], LLAMA_CPP.chunks()])
    def test_llama_cpp_tells_drafts_and_lets_steps_be_derived(self, payloads):
        counts = llama.of_reply(payloads)

        assert told(counts) == (STEPS, DRAFTED, ACCEPTED, None)
        assert set(counts.derived) == {"steps"}
        assert counts.record_fields()["steps"] is None

    @pytest.mark.parametrize("wire", [TGI, GENERIC])
    def test_engines_that_tell_nothing(self, wire):
        counts = ENGINES[wire.name].of_reply(wire.chunks())

        assert told(counts) == NOTHING
        assert all(counts.unknown.values())

    @pytest.mark.parametrize("name", ENGINES)
    def test_the_usage_chunk_is_asked_for_only_where_something_streams(self, name):
        adapter = ENGINES[name]

        assert adapter.request_fields(stream=True)["stream_options"] == {"include_usage": True}
        assert "stream_options" not in adapter.request_fields(stream=False)

    def test_sglang_has_to_be_asked(self):
        assert sglang.request_fields(stream=False) == {"return_spec_tokens_details": True}


class TestVllm:
    def of(self, **changes):
        stats = {**STATS, **changes}
        return vllm.of_reply([{"choices": [], "metrics": {"speculative_decoding": stats}}])

    def test_histogram_keys_as_text(self):
        assert told(self.of(acceptance_histogram={"0": 1, "2": 1, "3": 2})) == KNOWN

    def test_histogram_keys_as_text_where_the_longest_did_not_occur(self):
        counts = self.of(acceptance_histogram={"0": 2, "1": 2}, num_accepted_draft_tokens=2)

        assert counts.histogram == (2, 2, 0, 0)

    def test_an_earlier_draft_of_the_feature_wrote_it_into_the_choice(self):
        choice = {"index": 0, "text": "", "speculative_decoding_stats": STATS}

        assert told(vllm.of_reply([{"choices": [choice]}])) == KNOWN

    def test_newer_fields_change_nothing(self):
        assert (
            told(
                self.of(
                    acceptance_histogram_by_draft_length={"3": HISTOGRAM},
                    per_step_accepted=[3, 3, 2, 0],
                    per_step_drafted=[3] * 4,
                )
            )
            == KNOWN
        )

    def test_rates_are_never_taken_for_counts(self):
        stats = {"mean_acceptance_length": 3.0, "draft_acceptance_rate": 0.6}
        counts = vllm.of_reply([{"metrics": {"speculative_decoding": stats}}])

        assert told(counts) == NOTHING

    def test_a_server_that_tells_only_some_counts(self):
        counts = self.of(num_spec_steps=None, acceptance_histogram=None)

        assert told(counts) == (None, DRAFTED, ACCEPTED, None)

    def test_null_is_no_zero(self):
        counts = vllm.of_reply([{"choices": [], "metrics": {"speculative_decoding": None}}])

        assert told(counts) == NOTHING
        assert "several replies" in counts.unknown["steps"]

    @pytest.mark.parametrize("metrics", [None, {}, {"queue_time_ms": 1.0}, "x", []])
    def test_a_server_without_the_option(self, metrics):
        counts = vllm.of_reply([VLLM.body(metrics=metrics)])

        assert told(counts) == NOTHING
        assert "--per-request-spec-decode-metrics" in counts.unknown["steps"]

    def test_what_an_earlier_chunk_said_is_replaced_by_null(self):
        early = {"choices": [], "metrics": {"speculative_decoding": STATS}}
        late = {"choices": [], "metrics": {"speculative_decoding": None}}

        assert told(vllm.of_reply([early, late])) == NOTHING

    def test_a_contradiction_is_not_believed(self):
        assert told(self.of(num_accepted_draft_tokens=99)) == NOTHING


class TestSglang:
    def of(self, **details):
        return sglang.of_reply([{"choices": [], "sglext": {"spec_tokens_details": details}}])

    @pytest.mark.parametrize(
        "accepted",
        [
            "spec_num_correct_drafts",
            "spec_accepted_drafts",
            "spec_accepted_tokens",
            "spec_accept_token_num",
        ],
    )
    @pytest.mark.parametrize(
        "drafted", ["spec_num_proposed_drafts", "spec_proposed_drafts", "spec_draft_token_num"]
    )
    @pytest.mark.parametrize(
        "histogram", ["spec_correct_drafts_histogram", "spec_accept_histogram"]
    )
    def test_names_of_all_versions(self, accepted, drafted, histogram):
        details = {
            "spec_verify_ct": STEPS,
            accepted: ACCEPTED,
            drafted: DRAFTED,
            histogram: HISTOGRAM,
        }

        assert told(self.of(**details)) == KNOWN
        assert told(sglang.of_reply([{"text": "x", "meta_info": details}])) == KNOWN

    def test_the_native_stream_repeats_itself_and_the_last_one_counts(self):
        early = {"meta_info": {"spec_verify_ct": 1, "spec_accept_token_num": 1}}
        late = {"meta_info": {"spec_verify_ct": 4, "spec_accept_token_num": 8}}
        counts = sglang.of_reply([early, late])

        assert (counts.steps, counts.accepted) == (4, 8)
        assert "meta_info" in counts.source

    def test_two_names_that_differ_tell_nothing(self):
        counts = self.of(spec_verify_ct=4, spec_num_correct_drafts=8, spec_accepted_drafts=9)

        assert (counts.steps, counts.accepted) == (4, None)

    def test_two_names_that_agree_are_one(self):
        assert (
            self.of(spec_verify_ct=4, spec_num_correct_drafts=8, spec_accepted_drafts=8).accepted
            == 8
        )

    def test_zeros_filled_in_for_what_is_lacking_are_no_counts(self):
        counts = self.of(
            spec_verify_ct=4,
            spec_num_correct_drafts=0,
            spec_num_proposed_drafts=0,
            spec_correct_drafts_histogram=[],
        )

        assert (counts.steps, counts.drafted, counts.histogram) == (4, None, None)

    def test_no_step_at_all_is_told(self):
        counts = self.of(
            spec_verify_ct=0,
            spec_num_correct_drafts=0,
            spec_num_proposed_drafts=0,
            spec_correct_drafts_histogram=[],
        )

        assert told(counts) == (0, 0, 0, ())

    @pytest.mark.parametrize(
        "payload",
        [
            {"sglext": {}},
            {"sglext": {"spec_tokens_details": None}},
            {"sglext": None},
            {},
            {"meta_info": {"completion_tokens": 13}},
        ],
    )
    def test_versions_that_ignore_the_field(self, payload):
        counts = sglang.of_reply([payload])

        assert told(counts) == NOTHING
        assert "return_spec_tokens_details" in counts.unknown["steps"]


class TestSglangBehindAProxy:
    """Only OpenAI's fields come through, and newer versions tell two counts in them."""

    def of(self, accepted, rejected, **more):
        details = {
            "accepted_prediction_tokens": accepted,
            "rejected_prediction_tokens": rejected,
            "reasoning_tokens": 0,
        }
        usage = {**SGLANG.body()["usage"], "completion_tokens_details": details}
        return sglang.of_reply(stripped(SGLANG.chunks(usage=usage, **more)), "0.5.23")

    def test_accepted_and_rejected_tokens_are_read(self):
        counts = self.of(ACCEPTED, DRAFTED - ACCEPTED)

        assert told(counts) == (None, DRAFTED, ACCEPTED, None)
        assert counts.source == "sglang 0.5.23: completion_tokens_details"
        assert counts.acceptance_rate == ACCEPTED / DRAFTED

    @pytest.mark.parametrize("pair", [(0, 0), (None, None), (8, None), (-1, 4), ("8", 4)])
    def test_zeros_and_damage_tell_nothing(self, pair):
        assert told(self.of(*pair)) == NOTHING

    def test_its_own_fields_come_first(self):
        details = {"accepted_prediction_tokens": 1, "rejected_prediction_tokens": 1}
        usage = {"completion_tokens": 13, "completion_tokens_details": details}

        assert told(sglang.of_reply(SGLANG.chunks(usage=usage))) == KNOWN

    def test_other_engines_do_not_mean_drafts_by_them(self):
        details = {"accepted_prediction_tokens": 8, "rejected_prediction_tokens": 4}
        payload = {"choices": [], "usage": {"completion_tokens_details": details}}

        assert told(vllm.of_reply([payload])) == NOTHING
        assert told(ENGINES["generic"].of_reply([payload])) == NOTHING


class TestLlamaCpp:
    def of(self, **changes):
        timings = {**LLAMA_CPP.extra["timings"], **changes}
        return llama.of_reply([{"choices": [], "timings": timings}])

    def test_a_request_that_drafted_nothing(self):
        assert (
            "nothing was drafted" in self.of(draft_n=None, draft_n_accepted=None).unknown["drafted"]
        )

    def test_more_accepted_than_there_are_tokens(self):
        counts = self.of(predicted_n=5)

        assert (counts.steps, counts.drafted, counts.accepted) == (None, DRAFTED, ACCEPTED)

    def test_timings_of_every_token_and_the_last_ones_count(self):
        early = {"timings": {"predicted_n": 2, "draft_n": 3, "draft_n_accepted": 1}}

        assert llama.of_reply([early, *LLAMA_CPP.chunks()]).accepted == ACCEPTED

    def test_no_timings(self):
        assert told(llama.of_reply([LLAMA_CPP.body(timings=None)])) == NOTHING


class TestSeveralReplies:
    """llama.cpp tells the counts of one reply of several, and not of which."""

    @pytest.mark.parametrize("wire", [pytest.param(w, id=w.name) for w in ALL])
    def test_at_once(self, wire):
        choices = [{"index": i, "message": {"content": "x"}} for i in (0, 1)]
        counts = ENGINES[wire.name].of_reply([wire.body(choices=choices)])

        assert told(counts) == NOTHING
        assert "2 replies" in counts.unknown["steps"]

    def test_on_the_native_route_of_sglang(self):
        replies = [{"text": "x", "index": i, "meta_info": DETAILS} for i in (0, 1)]

        assert told(sglang.of_reply(replies)) == NOTHING

    def test_an_index_that_a_proxy_left_out_is_that_of_the_one_reply(self):
        chunks = VLLM.chunks()
        chunks[1]["choices"][0]["index"] = None
        del chunks[2]["choices"][0]["index"]

        assert told(vllm.of_reply(chunks)) == KNOWN

    @pytest.mark.parametrize("wire", TELLING)
    def test_in_a_stream(self, wire):
        second = {"choices": [{"index": 1, "delta": {"content": "x"}}]}

        assert told(ENGINES[wire.name].of_reply([second, *wire.chunks()])) == NOTHING


class TestErrors:
    @pytest.mark.parametrize("name", ENGINES)
    @pytest.mark.parametrize(
        "error",
        [
            {"error": {"message": "out of memory", "code": 500}},
            {"error": "out of memory"},
            {"object": "error", "message": "out of memory", "code": 500},
        ],
    )
    def test_a_reply_that_failed_tells_no_counts(self, name, error):
        wire = next(w for w in ALL if w.name == name)
        counts = ENGINES[name].of_reply([*wire.chunks(), error])

        assert told(counts) == NOTHING
        assert "out of memory" in counts.unknown["steps"]

    @pytest.mark.parametrize("error", [{}, "", {"message": None}, 0, []])
    def test_an_error_without_a_message_is_one(self, error):
        assert error_of({"error": error}) is not None

    @pytest.mark.parametrize("reason", ["error", "abort", {"type": "abort", "message": "too long"}])
    @pytest.mark.parametrize("name", ["vllm", "sglang"])
    def test_a_reply_that_the_server_broke_off_tells_no_counts(self, name, reason):
        wire = next(w for w in ALL if w.name == name)
        counts = ENGINES[name].of_reply(wire.chunks(finish_reason=reason))

        assert told(counts) == NOTHING
        assert "finish_reason" in counts.unknown["steps"]

    def test_one_broken_off_on_the_native_route_of_sglang(self):
        ended = {"type": "abort", "message": "the input is too long", "status_code": 400}
        counts = sglang.of_reply([{"text": "", "meta_info": {**DETAILS, "finish_reason": ended}}])

        assert told(counts) == NOTHING

    @pytest.mark.parametrize("reason", [None, "stop", "length", {"type": "stop", "matched": 2}])
    def test_other_reasons_to_end_are_no_errors(self, reason):
        assert error_of({"choices": [{"index": 0, "finish_reason": reason}]}) is None

    @pytest.mark.parametrize("payload", [{}, {"error": None}, {"error": False}, {"choices": []}])
    def test_no_error(self, payload):
        assert error_of(payload) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(deadline=None)
@given(data=st.data(), name=st.sampled_from(list(ENGINES)))
def test_damage_anywhere_gives_unknown_or_the_truth_never_an_exception(data, name):
    wire = next(w for w in ALL if w.name == name)
    payload = copy.deepcopy(wire.body())
    place = payload
    while isinstance(place, dict) and place:
        key = data.draw(st.sampled_from(sorted(place)))
        if not isinstance(place[key], dict) or data.draw(st.booleans()):
            place[key] = data.draw(JSON)
            break
        place = place[key]

    counts = ENGINES[name].of_reply([payload])

    for field in ("steps", "drafted", "accepted", "histogram"):
        assert (getattr(counts, field) is None) == (field in counts.unknown)
