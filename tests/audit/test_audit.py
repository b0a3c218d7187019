import json
import math

import numpy as np
import pytest
import torch
from scipy import stats

from specdecode.audit.report import min_greedy_tokens, min_sampled_tokens
from specdecode.audit.run import audit_with
from specdecode.errors import ConfigError, NumericalError
from tests.audit import toys
from tests.audit.toys import ToyScorer, tables, top_k, walk

LENGTH = 50
ENOUGH_ROWS = 52  # 2600 tokens, above min_sampled_tokens(0.01)
TARGET, DRAFT = tables()
GREEDY = {"name": "greedy", "temperature": 0.0}
SAMPLED = {"name": "sampled", "temperature": 1.0}


def sampled_rows(law, rows=ENOUGH_ROWS, sampling=SAMPLED, seed=0):
    return records(walk(law, rows, LENGTH, np.random.default_rng(seed)), sampling)


def records(tokens, sampling):
    return [
        {
            "prompt_id": f"p{index}",
            "prompt_token_ids": [int(line[0])],
            "output_token_ids": line[1:].tolist(),
            "sampling": sampling,
        }
        for index, line in enumerate(np.asarray(tokens))
    ]


def greedy_rows(table=TARGET, rows=20):
    best = table.argmax(-1)
    lines = []
    for start in range(rows):
        line = [start]
        while len(line) <= LENGTH:
            line.append(int(best[line[-1]]))
        lines.append(line)
    return records(lines, GREEDY)


def run(rows, baseline=None, scorer=None, alpha=0.01):
    scorer = scorer or ToyScorer(TARGET, DRAFT, shake=1e-5)
    arms = {"rows": rows} if baseline is None else {"rows": rows, "plain": baseline}
    return audit_with(scorer, arms, alpha, baseline_arm="plain")["rows"]


class TestSampledRows:
    def test_a_correct_sampler_is_lossless_after_enough_tokens(self):
        report = run(sampled_rows(TARGET.softmax(-1)))

        assert report.verdict == "lossless"
        assert report.tokens_read == ENOUGH_ROWS * LENGTH >= report.min_tokens
        assert report.first_evidence is None
        assert report.greedy is None

    def test_too_few_tokens_are_undecided_however_good_they_look(self):
        report = run(sampled_rows(TARGET.softmax(-1), rows=10))

        assert report.verdict == "undecided"
        assert str(report.min_tokens) in report.reasons[0]

    @pytest.mark.parametrize(
        "fault",
        [
            toys.from_draft,
            toys.residual_is_target,
            toys.argmax_of_target,
            toys.greedy_draft_declared_as_softmax,
            toys.half_temperature,
        ],
    )
    def test_a_planted_fault_is_biased_and_the_token_is_named(self, fault):
        report = run(sampled_rows(fault(TARGET.softmax(-1), DRAFT.softmax(-1))))

        assert report.verdict == "biased"
        assert report.max_log_e_value >= math.log(100)
        found = report.first_evidence
        assert found is not None
        assert found.kind == "e-value"
        row, position = divmod(found.tokens_read - 1, LENGTH)
        assert (found.prompt_id, found.position) == (f"p{row}", position)

    def test_filters_skipped_by_the_engine_show_as_impossible_tokens(self):
        report = run(sampled_rows(TARGET.softmax(-1), sampling={**SAMPLED, "top_k": 4}))

        assert report.verdict == "biased"
        assert report.sampled["impossible"] > 0
        assert report.first_evidence.kind == "impossible token"
        assert "probability 0" in report.reasons[0]

    @pytest.mark.parametrize(
        ("sampling", "law"),
        [
            ({"temperature": 0.5}, (TARGET / 0.5).softmax(-1)),
            ({"temperature": 1.0, "top_k": 4}, top_k(TARGET, 4).softmax(-1)),
        ],
    )
    def test_parameters_act_on_the_reference_as_requested(self, sampling, law):
        assert run(sampled_rows(law, sampling=sampling)).verdict == "lossless"
        wrong = run(sampled_rows(law, sampling=SAMPLED))
        assert wrong.verdict == "biased"

    def test_without_the_draft_the_report_says_what_it_could_not_see(self):
        report = run(sampled_rows(TARGET.softmax(-1)), scorer=ToyScorer(TARGET, shake=1e-5))

        assert report.verdict == "lossless"
        assert "without the draft" in report.reasons[0]
        assert report.sampled["draft_known"] is False

    @pytest.mark.parametrize("drafted", [3, 0, None])
    def test_rows_that_drafted_are_undecided_without_the_draft(self, drafted):
        rows = [{**row, "drafted": drafted} for row in sampled_rows(TARGET.softmax(-1))]
        unknown = run(rows, scorer=ToyScorer(TARGET, shake=1e-5))

        assert unknown.verdict == ("undecided" if drafted else "lossless")
        assert ("--draft" in unknown.reasons[0]) is bool(drafted)
        assert run(rows).verdict == "lossless"

    def test_without_the_draft_a_fault_that_shows_elsewhere_is_still_biased(self):
        law = toys.argmax_of_target(TARGET.softmax(-1), DRAFT)
        rows = [{**row, "drafted": 3} for row in sampled_rows(law)]

        assert run(rows, scorer=ToyScorer(TARGET, shake=1e-5)).verdict == "biased"

    def test_greedy_rows_that_drafted_need_no_draft(self):
        rows = [{**row, "drafted": 3} for row in greedy_rows()]

        assert run(rows, scorer=ToyScorer(TARGET, shake=1e-5)).verdict == "lossless"

    def test_a_border_tie_is_not_a_violation(self):
        table = TARGET.clone()
        order = table.argsort(-1, descending=True)
        rows = torch.arange(len(table))
        # Tokens at rank 4 and 5 differ by less than the numerical error.
        table[rows, order[:, 4]] = table[rows, order[:, 3]] - 1e-6
        tokens = walk(top_k(table, 5).softmax(-1), ENOUGH_ROWS, LENGTH, np.random.default_rng(0))
        report = run(records(tokens, {**SAMPLED, "top_k": 4}), scorer=ToyScorer(table, shake=1e-3))

        assert report.sampled["border_ties"] > 0
        assert report.sampled["impossible"] == 0

    def test_stopping_at_an_end_token_does_not_bias(self):
        """Outputs end at their first end token, half of them without recording it."""
        law = TARGET.softmax(-1)
        alarms = 0
        for seed in range(40):
            rows = sampled_rows(law, rows=60, seed=seed)
            for number, row in enumerate(rows):
                ids = row["output_token_ids"]
                if toys.EOS in ids:
                    cut = ids.index(toys.EOS) + 1
                    row["output_token_ids"] = ids[: cut - number % 2]
                    row["finish_reason"] = "stop"
                else:
                    row["finish_reason"] = "length"
            scorer = ToyScorer(TARGET, DRAFT, shake=1e-5, eos=(toys.EOS,))
            alarms += run(rows, scorer=scorer, alpha=0.05).verdict == "biased"
        assert alarms <= stats.binom.ppf(0.999, 40, 0.05)

    def test_recorded_order_decides_and_not_the_order_of_the_rows(self):
        rows = sampled_rows(DRAFT.softmax(-1))
        for index, row in enumerate(rows):
            row["order_index"] = index

        assert run(rows).to_json()["evidence"] == run(rows[::-1]).to_json()["evidence"]


class TestGreedyRows:
    def test_exact_outputs_are_lossless(self):
        report = run(greedy_rows(), baseline=greedy_rows())

        assert report.verdict == "lossless"
        assert report.greedy["exact"] == 1000
        assert report.greedy["against_baseline"]["identical"] == 20
        assert report.tokens_read == 0
        assert report.sampled is None

    def test_a_second_best_token_is_a_failure_and_the_rest_is_judged_from_there(self):
        rows = greedy_rows()
        second = int(TARGET[rows[3]["output_token_ids"][9]].topk(2).indices[1])
        prefix = [*rows[3]["output_token_ids"][:10], second]
        while len(prefix) < LENGTH:
            prefix.append(int(TARGET[prefix[-1]].argmax()))
        rows[3]["output_token_ids"] = prefix
        report = run(rows, baseline=greedy_rows())

        assert report.verdict == "biased"
        assert report.greedy["failures"] == 1
        failure = report.greedy["listed_failures"][0]
        assert (failure["row"], failure["position"]) == ("row 3 (p3)", 10)
        assert report.greedy["against_baseline"]["diverged_failure"] == 1

    def test_a_token_within_the_measured_tolerance_is_a_tie(self):
        table = TARGET.clone()
        second = table.topk(2).indices[:, 1]
        rows = torch.arange(len(table))
        table[rows, second] = table.amax(-1) - 1e-4
        other = table.clone()
        other[rows, second] += 2e-4  # this engine's rounding prefers the other one
        report = run(
            greedy_rows(other), baseline=greedy_rows(table), scorer=ToyScorer(table, shake=1e-4)
        )

        assert report.greedy["ties"] == 1000
        assert report.greedy["failures"] == 0
        assert report.greedy["against_baseline"]["diverged_tie"] == 20
        # Far more ties than the control shows: not wrong, but nothing to call lossless either.
        assert report.verdict == "undecided"
        assert "more than plain decoding" in report.reasons[0]
        assert run(greedy_rows(other), scorer=ToyScorer(table, shake=0.0)).verdict == "biased"

    def test_failures_that_plain_decoding_shares_are_not_blamed_on_speculation(self):
        report = run(greedy_rows(DRAFT), baseline=greedy_rows(DRAFT))

        assert report.verdict == "undecided"
        assert "plain decoding" in report.reasons[0]

    def test_penalties_act_before_the_best_token_is_chosen(self):
        sampling = {**GREEDY, "repetition_penalty": 1.5}
        lines = []
        for start in range(20):
            line = [start]
            while len(line) <= LENGTH:
                scores = TARGET[line[-1]].clone()
                seen = sorted(set(line))
                scores[seen] = torch.where(scores[seen] > 0, scores[seen] / 1.5, scores[seen] * 1.5)
                line.append(int(scores.argmax()))
            lines.append(line)

        assert run(records(lines, sampling)).verdict == "lossless"
        assert run(records(lines, GREEDY)).verdict == "biased"

    def test_an_output_that_ends_elsewhere_is_not_lossless(self):
        rows = greedy_rows()
        rows[0]["output_token_ids"] = rows[0]["output_token_ids"][:-5]
        report = run(rows, baseline=greedy_rows())

        assert report.verdict == "undecided"
        assert report.greedy["against_baseline"]["ends_differ"] == 1

    def test_too_few_tokens_are_undecided(self):
        assert run(greedy_rows(rows=4)).verdict == "undecided"


class TestWhole:
    def test_no_rows_are_undecided(self):
        report = run([])

        assert report.verdict == "undecided"
        assert report.reasons
        assert report.e_value == pytest.approx(1.0)

    def test_one_kind_of_row_cannot_vouch_for_another_that_always_failed(self):
        failed = [{**row, "error": "oom"} for row in sampled_rows(TARGET.softmax(-1), rows=3)]
        report = run(greedy_rows() + failed)

        assert report.verdict == "undecided"
        assert "sampled rows were requested" in report.reasons[0]
        assert len(report.rows["errors"]) == 3

    def test_a_fault_in_one_kind_of_row_condemns_the_arm(self):
        report = run(greedy_rows() + sampled_rows(DRAFT.softmax(-1)))

        assert report.greedy["verdict"] == "lossless"
        assert report.sampled["verdict"] == report.verdict == "biased"

    def test_unjudgeable_rows_are_never_lossless(self):
        rows = greedy_rows()
        rows[0]["finish_reason"] = "stop"  # the toy has no end token to restore

        report = run(rows)
        assert report.verdict == "undecided"
        assert report.reasons[0].startswith(
            "1 row could not be judged (rows.unjudged): 1 because finish_reason is 'stop'"
        )

    def test_the_reasons_are_counted_in_words_the_most_frequent_one_first(self):
        rows = greedy_rows() + greedy_rows() + greedy_rows()
        for index, row in enumerate(rows):
            row["prompt_id"], row["order_index"] = f"p{index}", index
        rows[3]["output_token_ids"] = []
        for index in (5, 7):
            rows[index]["output_token_ids"] = None
        rows[9]["finish_reason"] = "stop"
        rows[11] |= {"finish_reason": "stop", "sampling": {**rows[11]["sampling"], "stop": ["x"]}}
        reason = run(rows).reasons[0]

        assert reason.startswith(
            "5 rows could not be judged (rows.unjudged): 2 because neither an output nor an error "
            "was recorded, such as row 5 (p5); "
        )
        assert reason.endswith("; 1 for other reasons")
        assert reason.count(" because ") == 3

    def test_an_engine_that_withholds_outputs_is_never_lossless(self):
        withheld = [{**row, "output_token_ids": None} for row in greedy_rows(DRAFT)]
        report = run(greedy_rows() + withheld)

        assert report.verdict == "undecided"
        assert "20 rows could not be judged" in report.reasons[0]

    def test_a_biased_control_is_named_as_a_reason_to_doubt_the_reference(self):
        law = DRAFT.softmax(-1)
        report = run(sampled_rows(law), baseline=sampled_rows(law, seed=1))

        assert report.verdict == "biased"
        assert any("plain decoding is biased" in reason for reason in report.reasons)

    def test_the_report_is_json_safe_and_carries_what_views_read(self):
        text = json.dumps(
            run(sampled_rows(TARGET.softmax(-1)) + greedy_rows(), greedy_rows()).to_json(),
            allow_nan=False,
        )
        document = json.loads(text)

        assert {"verdict", "e_value", "tokens_read", "min_tokens", "evidence"} <= set(document)
        assert {"exact", "ties", "failures", "tie_tolerance", "control"} <= set(document["greedy"])
        assert len(document["evidence"]) <= 500

    def test_overwhelming_evidence_is_still_a_finite_number(self):
        document = run(sampled_rows(toys.argmax_of_target(TARGET.softmax(-1), DRAFT))).to_json()

        assert json.dumps(document, allow_nan=False)
        assert document["log_e_value"] > 100

    def test_a_broken_reference_stops_the_audit_with_the_row(self):
        table = TARGET.clone()
        table[5, 5] = math.nan
        rows = records([[5] * 3], SAMPLED)

        with pytest.raises(NumericalError, match="target gives NaN"):
            run(rows, scorer=ToyScorer(table))

    def test_alpha_outside_its_range_is_refused(self):
        with pytest.raises(ConfigError, match="alpha"):
            run([], alpha=0.0)


def test_a_smaller_alpha_needs_more_tokens():
    assert min_sampled_tokens(0.01) == 2500
    assert min_sampled_tokens(0.001) > min_sampled_tokens(0.01)
    assert 0.99 ** min_greedy_tokens(0.01) <= 0.01 < 0.99 ** (min_greedy_tokens(0.01) - 1)
