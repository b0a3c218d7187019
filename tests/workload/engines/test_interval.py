"""What a server did between two readings of its metrics, engine by engine."""

from __future__ import annotations

import pytest

from specdecode.workload.engines import ENGINES, AggregateSpeculation
from tests.wire.engines import ALL, VLLM
from tests.wire.metrics import (
    ACCEPTED,
    DRAFTED,
    HISTOGRAM,
    STEPS,
    TOKENS,
    llama_metrics,
    sglang_metrics,
    tgi_metrics,
    trtllm_metrics,
    vllm_metrics,
)
from tests.wire.replies import error_reply, text_reply
from tests.wire.server import WireServer, in_turn
from tests.workload.engines.asking import ask, facts, metrics

METRICS = {
    "specdecode": vllm_metrics,
    "vllm": vllm_metrics,
    "sglang": sglang_metrics,
    "llama.cpp": llama_metrics,
    "tgi": tgi_metrics,
    "tensorrt-llm": trtllm_metrics,
}
vllm = ENGINES["vllm"]


def between(name, before, after):
    return ENGINES[name].between(metrics(before), metrics(after, 1))


def told(counts):
    return (counts.steps, counts.drafted, counts.accepted, counts.histogram)


NOTHING = (None, None, None, None)


def all_unknown(found):
    assert told(found.speculation) == NOTHING
    assert (found.generated_tokens, found.finished_requests, found.preemptions) == (None,) * 3
    assert (found.prefix_queried_tokens, found.prefix_hit_tokens) == (None, None)
    [why] = {*found.unknown.values(), *found.speculation.unknown.values()}
    return why


class TestWhatEachEngineCounts:
    @pytest.mark.parametrize("name", ["specdecode", "vllm"])
    def test_vllm_counts_everything(self, name):
        found = between(name, vllm_metrics(2), vllm_metrics(5))

        assert told(found.speculation) == (
            3 * STEPS,
            3 * DRAFTED,
            3 * ACCEPTED,
            tuple(3 * n for n in HISTOGRAM),
        )
        assert (found.generated_tokens, found.finished_requests) == (3 * TOKENS, 3)
        assert (found.preemptions, found.prefix_queried_tokens, found.prefix_hit_tokens) == (
            3,
            15,
            6,
        )
        assert found.prefix_hit_rate == 0.4
        assert found.unknown == {}

    @pytest.mark.parametrize("name", ["vllm"])
    def test_eight_engines_behind_one_address_are_summed(self, name):
        found = between(name, vllm_metrics(1, engines=8), vllm_metrics(2, engines=8))

        assert told(found.speculation) == (
            8 * STEPS,
            8 * DRAFTED,
            8 * ACCEPTED,
            tuple(8 * n for n in HISTOGRAM),
        )

    @pytest.mark.parametrize("before", [0, 1])
    def test_sglang_counts_steps(self, before):
        found = between("sglang", sglang_metrics(before) if before else "x 1\n", sglang_metrics(4))
        times = 4 - before

        assert told(found.speculation) == (times * STEPS, None, None, None)
        assert "generated tokens minus steps" in found.speculation.unknown["accepted"]
        assert (found.generated_tokens, found.finished_requests) == (times * TOKENS, times)
        assert (found.prefix_queried_tokens, found.prefix_hit_tokens) == (5 * times, 2 * times)

    @pytest.mark.parametrize("before", [0, 1])
    def test_llama_cpp_counts_drafts_exactly(self, before):
        found = between("llama.cpp", llama_metrics(before), llama_metrics(4))
        times = 4 - before

        assert told(found.speculation) == (
            times * STEPS,
            times * DRAFTED,
            times * ACCEPTED,
            tuple(times * n for n in HISTOGRAM),
        )
        assert found.speculation.derived == {}
        assert found.generated_tokens == times * TOKENS
        assert (found.prefix_queried_tokens, found.prefix_hit_tokens) == (5 * times, 2 * times)
        assert set(found.unknown) == {"finished_requests", "preemptions"}

    def test_builds_of_llama_cpp_that_do_not_count_cached_tokens(self):
        def older(times):
            lines = llama_metrics(times).splitlines(keepends=True)
            return "".join(line for line in lines if "cached" not in line)

        found = between("llama.cpp", older(1), older(2))

        assert (found.prefix_queried_tokens, found.prefix_hit_tokens) == (None, None)

    @pytest.mark.parametrize("before", [0, 1])
    def test_tgi_counts_accepted_tokens(self, before):
        found = between("tgi", tgi_metrics(before), tgi_metrics(4))
        times = 4 - before

        assert told(found.speculation) == (None, None, times * ACCEPTED, None)
        assert (found.generated_tokens, found.finished_requests) == (times * TOKENS, times)

    @pytest.mark.parametrize("before", [0, 1])
    def test_tensorrt_llm_counts_drafted_and_accepted_tokens(self, before):
        found = between("tensorrt-llm", trtllm_metrics(before), trtllm_metrics(4))
        times = 4 - before

        assert told(found.speculation) == (None, times * DRAFTED, times * ACCEPTED, None)
        assert found.speculation.acceptance_rate == ACCEPTED / DRAFTED
        assert found.speculation.mean_acceptance_length is None
        assert (found.generated_tokens, found.finished_requests) == (times * TOKENS, times)

    @pytest.mark.parametrize("name", ["specdecode", "vllm", "tensorrt-llm"])
    @pytest.mark.parametrize("reason", ["abort", "error", "cancelled"])
    def test_requests_that_did_not_end_well_are_not_finished_ones(self, name, reason):
        prefix = "trtllm_" if name == "tensorrt-llm" else "vllm:"
        broken = prefix + 'request_success_total{{finished_reason="' + reason + '",x="1"}} {}\n'
        before = METRICS[name](1) + broken.format(3)
        found = between(name, before, METRICS[name](2) + broken.format(7))

        assert found.finished_requests == 1

    @pytest.mark.parametrize("rank", ["tp_rank", "pp_rank", "moe_ep_rank"])
    def test_ranks_of_one_engine_that_repeat_each_other_are_not_summed(self, rank):
        ranks = [{rank: "0"}, {rank: "1"}]
        found = between("sglang", sglang_metrics(1, ranks), sglang_metrics(2, ranks))

        assert found.preemptions is None
        assert "several ranks" in found.unknown["preemptions"]
        assert (found.generated_tokens, found.speculation.steps) == (TOKENS, STEPS)

    def test_engines_side_by_side_are_summed(self):
        ranks = [{"tp_rank": str(r), "dp_rank": str(r)} for r in (0, 1)]

        assert (
            between("sglang", sglang_metrics(1, ranks), sglang_metrics(2, ranks)).preemptions == 2
        )

    def test_an_unknown_engine_counts_nothing_whatever_its_metrics_are_called(self):
        found = between("generic", vllm_metrics(1), vllm_metrics(2))

        assert "not known" in all_unknown(found)

    @pytest.mark.parametrize("name", METRICS)
    def test_it_is_of_a_server_not_of_a_request(self, name):
        found = between(name, METRICS[name](1), METRICS[name](2)).speculation

        assert isinstance(found, AggregateSpeculation)
        assert found.scope == "aggregate"
        assert not hasattr(found, "record_fields")

    @pytest.mark.parametrize("name", METRICS)
    def test_nothing_happened(self, name):
        found = between(name, METRICS[name](3), METRICS[name](3))

        assert found.generated_tokens == 0
        assert found.speculation.mean_acceptance_length is None

    def test_names_before_0_9_of_vllm(self):
        def old(times):
            return vllm_metrics(times).replace("vllm:prefix_cache", "vllm:gpu_prefix_cache")

        assert between("vllm", old(1), old(2)).prefix_hit_tokens == 2

    def test_names_without_total(self):
        def bare(times):
            return vllm_metrics(times).replace("_total", "")

        assert told(between("vllm", bare(1), bare(2)).speculation)[:3] == (STEPS, DRAFTED, ACCEPTED)

    def test_a_total_of_cached_tokens_beside_its_sources_is_ambiguous(self):
        both = 'sglang:cached_tokens_total{cache_source="total"} 5\n'
        found = between("sglang", sglang_metrics(1) + both, sglang_metrics(2) + both)

        assert found.prefix_hit_tokens is None
        assert "beside its sources" in found.unknown["prefix_hit_tokens"]

    def test_no_speculation_configured(self):
        def plain(times):
            lines = vllm_metrics(times).splitlines(keepends=True)
            return "".join(line for line in lines if "spec_decode" not in line)

        found = between("vllm", plain(1), plain(2))

        assert told(found.speculation) == NOTHING
        assert "no metric vllm:spec_decode_num_drafts" in found.speculation.unknown["steps"]
        assert found.generated_tokens == TOKENS


class TestRestarts:
    @pytest.mark.parametrize("name", METRICS)
    def test_counters_that_went_back_make_everything_unknown(self, name):
        why = all_unknown(between(name, METRICS[name](5), METRICS[name](2)))

        assert "reset" in why

    def test_a_restart_is_seen_even_when_the_counters_have_caught_up(self):
        why = all_unknown(between("vllm", vllm_metrics(1), vllm_metrics(9, start=1.8e9)))

        assert "started again" in why

    def test_a_new_version_with_other_names(self):
        renamed = vllm_metrics(9).replace("num_drafts", "num_draft_steps")

        assert "another server or version" in all_unknown(between("vllm", vllm_metrics(1), renamed))

    def test_over_the_wire(self):
        script = in_turn(*(text_reply(vllm_metrics(n)) for n in (1, 3, 0)))
        with WireServer({("GET", "/metrics"): script}) as server:
            first, second, third = (ask(server.url, vllm.paths) for _ in range(3))

        assert vllm.between(first, second).speculation.steps == 2 * STEPS
        assert "reset" in all_unknown(vllm.between(second, third))


class TestReadings:
    def test_metrics_that_are_switched_off(self):
        off = text_reply("metrics are off", 404)
        with WireServer(VLLM.routes(**{"/metrics": off})) as server:
            found = ask(server.url, vllm.paths)

        assert "404" in all_unknown(vllm.between(found, found))

    def test_metrics_of_llama_cpp_that_are_not_switched_on(self):
        off = error_reply(
            501, "This server does not support metrics endpoint. Start it with `--metrics`"
        )
        with WireServer({("GET", "/metrics"): off}) as server:
            found = ask(server.url, ["/metrics"])

        assert "--metrics" in all_unknown(ENGINES["llama.cpp"].between(found, found))

    @pytest.mark.parametrize("name", [w.name for w in ALL if w.name != "generic"])
    def test_a_reading_that_failed(self, name):
        late = "no whole answer within 5 s"
        silent = facts(failures={"/metrics": late, "/prometheus/metrics": late})

        assert "within 5 s" in all_unknown(ENGINES[name].between(metrics("a 1\n"), silent))

    def test_readings_of_two_servers(self):
        other = facts(1, "http://other", **{"/metrics": vllm_metrics(2)})

        assert "two readings" in all_unknown(vllm.between(metrics(vllm_metrics(1)), other))

    def test_readings_in_the_wrong_order(self):
        late, early = metrics(vllm_metrics(1), 5), metrics(vllm_metrics(1), 1)

        assert "two readings" in all_unknown(vllm.between(late, early))

    def test_the_version_is_that_of_the_later_reading(self):
        after = metrics(vllm_metrics(2), 1, **{"/version": {"version": "0.32.0"}})
        found = vllm.between(metrics(vllm_metrics(1)), after)

        assert found.speculation.source == "vllm 0.32.0: /metrics, difference"

    def test_positions_read_while_they_were_counted_leave_the_totals_alone(self):
        torn = vllm_metrics(2).replace('position="2"} 4.0', 'position="2"} 3.0')
        found = between("vllm", vllm_metrics(1), torn)

        assert told(found.speculation) == (STEPS, DRAFTED, ACCEPTED, None)
        assert "adds up" in found.speculation.unknown["histogram"]
