"""A whole distillation: better than it began, the same bytes after any kill, nothing withheld."""

from __future__ import annotations

import json

import pytest
import torch

from specdecode import Engine, SamplingParams
from specdecode.distil import train as training_part
from specdecode.distil.budget import Budget
from specdecode.distil.initial import candidates
from specdecode.distil.settings import SynthesisSettings, TrainingSettings
from specdecode.distil.template import turns_of
from specdecode.distil.texts import REPLY, read_page, read_shard
from specdecode.distil.withheld import Withheld, digests_of
from specdecode.errors import ConfigError, DataValidationError, EvidenceError, ModelMismatchError
from specdecode.models import load_model
from specdecode.workload.prompts import Prompt
from tests.distil.conftest import SYNTHESIS, TRAINING, VOCABULARY
from tests.tiny_models import WORDS, write_tiny_model

SMALL = SYNTHESIS.model_copy(update={"tokens": 150, "held_out": 8, "shard": 8})
BRIEF = TRAINING.model_copy(update={"passes": 1, "head": 12})


class Killed(BaseException):
    """Stands for SIGKILL: nothing in the package may catch it and tidy up."""


def contents(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "clock.json"
    }


def acceptance(report, draft, temperature):
    return report["evaluation"]["drafts"][draft][temperature]["expected_acceptance"]


def test_training_raises_the_expected_acceptance_on_texts_held_out(finished):
    _, report = finished
    assert acceptance(report, "trained", "1") > acceptance(report, "initial", "1") + 0.01
    assert acceptance(report, "trained", "0.7") > acceptance(report, "initial", "0.7") + 0.01


def test_fitting_the_start_beats_the_layers_as_they_are(finished):
    overlaps = finished[1]["start"]["overlaps"]
    for name in ("first", "ends"):
        assert overlaps[f"{name}, fitted"] > overlaps[f"{name}, as it is"] + 0.05


def test_the_engine_accepts_as_often_as_the_evaluation_says(finished, target):
    """One draft token a step: its acceptance is then Σ min(p, q) on the texts it meets."""
    out, report = finished
    engine = Engine.load(target, str(out), num_speculative_tokens=1, device="cpu", dtype="float32")
    page = read_page(out / "work" / "shards" / "held-out-00000.json")
    prompts = [t.tokens[t.kinds != REPLY].tolist() for t in read_shard(out / "work/shards", page)]
    results = engine.generate(
        prompts, SamplingParams(max_tokens=60, temperature=1.0, seed=4, ignore_eos=True)
    )
    drafted = sum(r.acceptance.drafted for r in results)
    accepted = sum(r.acceptance.accepted for r in results)
    assert accepted / drafted == pytest.approx(acceptance(report, "trained", "1"), abs=0.06)


def test_the_evaluation_is_the_overlap_of_both_laws(finished, target):
    """By transformers alone, for one text."""
    out, _ = finished
    page = read_page(out / "work" / "shards" / "held-out-00000.json")
    text = read_shard(out / "work/shards", page)[0]
    laws = []
    for folder in (target, out):
        model = load_model(folder, "cpu", "float32").module
        with torch.no_grad():
            laws.append(model(text.tokens[None]).logits[0].softmax(-1))
    rows = (text.kinds == REPLY).nonzero()[:, 0] - 1
    expected = float(torch.minimum(*laws)[rows].sum(-1).mean())

    from specdecode.distil.acceptance import evaluate

    found = evaluate(load_model(target, "cpu", "float32"), {"trained": out}, [text])

    assert found["drafts"]["trained"]["1"]["expected_acceptance"] == pytest.approx(
        expected, abs=1e-4
    )
    assert found["drafts"]["trained"]["1"]["standard_error"] is None


def test_stored_laws_are_the_targets(finished, target):
    out, _ = finished
    page = read_page(out / "work" / "shards" / "train-00000.json")
    text = read_shard(out / "work/shards", page)[2]
    with torch.no_grad():
        law = load_model(target, "cpu", "float32").module(text.tokens[None]).logits[0].softmax(-1)
    stored = torch.zeros(len(text.scored), VOCABULARY)
    stored.scatter_(1, text.top_ids.long(), text.top_probs.float())
    torch.testing.assert_close(stored, law[text.scored - 1], rtol=2e-3, atol=1e-5)


def test_killed_after_every_kind_of_work_it_ends_with_the_same_bytes(
    finished, make, tmp_path, monkeypatch
):
    monkeypatch.setattr(training_part, "_CHECKPOINT_S", 0.0)
    out = tmp_path / "draft"
    kills = [("synthesise", 1), ("synthesise", 2), ("overlap", 1), ("train", 1), ("train", 2)]
    for part, count in kills:
        seen = []

        def watch(name, _what, part=part, count=count, seen=seen):
            seen.append(name)
            if seen.count(part) == count:
                raise Killed

        with pytest.raises(Killed):
            make(out, watch=watch)
    shards = out / "work" / "shards"
    (shards / ".train-00000.safetensors.x.partial").write_bytes(b"cut sho")
    report = make(out)

    (shards / ".train-00000.safetensors.x.partial").unlink()
    assert report == finished[1]
    assert contents(out) == contents(finished[0])


def test_a_shard_cut_short_is_made_again(make, tmp_path):
    def stop(name, _what):
        if name == "overlap":
            raise Killed

    out = tmp_path / "draft"
    with pytest.raises(Killed):
        make(out, synthesis=SMALL, training=BRIEF, watch=stop)
    before = contents(out / "work" / "shards")
    (out / "work" / "synthesis.json").unlink()
    (out / "work" / "shards" / "train-00000.json").unlink()
    (out / "work" / "shards" / "train-00000.safetensors").write_bytes(b"cut sho")

    with pytest.raises(Killed):
        (out / "work" / "overlap.json").unlink()
        make(out, synthesis=SMALL, training=BRIEF, watch=stop)

    assert contents(out / "work" / "shards") == before


def test_done_is_done(finished, make):
    events = []
    assert make(finished[0], watch=lambda part, _: events.append(part)) == finished[1]
    assert events == []


def test_a_changed_text_is_found_before_it_is_trained_on(make, tmp_path):
    def stop(name, _what):
        if name == "overlap":
            raise Killed

    out = tmp_path / "draft"
    with pytest.raises(Killed):
        make(out, synthesis=SMALL, training=BRIEF, watch=stop)
    shard = out / "work" / "shards" / "train-00000.safetensors"
    shard.write_bytes(shard.read_bytes()[:-1] + b"\x00\x00")

    with pytest.raises(EvidenceError, match="was changed after it was written"):
        make(out, synthesis=SMALL, training=BRIEF)


def test_other_settings_need_another_folder(finished, make):
    with pytest.raises(ConfigError, match=r"begun with seed = 0, not 1.*another folder"):
        make(finished[0], synthesis=SYNTHESIS.model_copy(update={"seed": 1}))
    with pytest.raises(ConfigError, match=r"begun with layers = 1, not 2"):
        make(finished[0], training=TRAINING.model_copy(update={"layers": 2}))


def test_a_given_turn_that_is_withheld_stops_the_run_before_training(make, tmp_path):
    """The filter of part 1 is switched off here: the check has to find it by itself."""
    turn = "cat dog sat ran on mat red"
    given = [Prompt(question_id="a", category="chat", turns=(turn,))]
    out = tmp_path / "draft"

    def stop(name, _what):
        if name == "overlap":
            raise Killed

    with pytest.raises(Killed):
        make(out, synthesis=SMALL, training=BRIEF, prompts=given, watch=stop)
    with pytest.raises(DataValidationError, match=r"share word runs with withheld.*given-00000/0"):
        make(
            out,
            synthesis=SMALL,
            training=BRIEF,
            prompts=given,
            withheld=Withheld((digests_of([turn], salt=""),)),
        )
    assert not (out / "work" / "training").exists()


def test_what_meets_a_withheld_prompt_is_dropped_as_it_is_written(make, finished, tmp_path):
    page = read_page(finished[0] / "work" / "shards" / "train-00000.json")
    tokenizer = load_model(finished[0], "cpu", "float32").tokenizer
    texts = read_shard(finished[0] / "work" / "shards", page)
    longest = max((text.part(REPLY) for text in texts), key=len)
    said = tokenizer.decode(longest, skip_special_tokens=True)
    known = [" ".join(WORDS[index] for index in (0, 1)), said]

    def stop(_name, what):
        if what.get("shard") == "train-00000":
            raise Killed

    with pytest.raises(Killed):
        make(tmp_path, withheld=Withheld((digests_of(known, salt=""),)), watch=stop)

    again = read_page(tmp_path / "work" / "shards" / "train-00000.json")
    assert again["dropped"] > page["dropped"]


def test_given_turns_are_answered_and_not_trained_on_themselves(make, target, tmp_path):
    given = [Prompt(question_id="a", category="chat", turns=("cat sat on mat",), system="red dog")]

    def stop(name, _what):
        if name == "overlap":
            raise Killed

    with pytest.raises(Killed):
        make(tmp_path, synthesis=SMALL, training=BRIEF, prompts=given, watch=stop)

    page = read_page(tmp_path / "work" / "shards" / "given-00000.json")
    (text,) = read_shard(tmp_path / "work" / "shards", page)
    model = load_model(target, "cpu", "float32")
    asked = turns_of(model, "red dog")
    assert tuple(text.tokens[: len(asked.before)].tolist()) == asked.before
    assert len(text.scored) == len(text.part(REPLY))


def test_a_cut_head_is_named_in_the_draft(make, tmp_path, target):
    report = make(tmp_path / "draft", synthesis=SMALL, training=BRIEF)
    listed = json.loads((tmp_path / "draft" / "draft_vocabulary.json").read_text())["target_ids"]
    assert len(listed) == 12
    assert report["start"]["layers"] == [0] or report["start"]["layers"] == [2]
    assert Engine.load(target, str(tmp_path / "draft"), device="cpu").generate([[3, 4]])


def test_a_time_limit_ends_writing_and_training(make, tmp_path):
    lots = SMALL.model_copy(update={"tokens": 10**9})
    report = make(
        tmp_path,
        synthesis=lots,
        training=TRAINING.model_copy(update={"passes": 10**6}),
        minutes=0.02,
    )
    assert 0 < report["tokens"] < 10_000
    assert 0 < report["steps"] < 10_000


def test_the_time_used_survives_a_kill(tmp_path):
    now = [100.0]
    first = Budget(2, tmp_path / "clock.json", lambda: now[0])
    now[0] = 130.0
    first.save()
    now[0] = 500.0
    second = Budget(2, tmp_path / "clock.json", lambda: now[0])
    assert second.left_s(1.0) == 90
    assert second.is_over(0.25)
    assert not Budget(None, tmp_path / "clock.json").is_over(0.0)


@pytest.mark.parametrize("minutes", [0, -1, float("inf"), float("nan")])
def test_no_time_is_refused(tmp_path, minutes):
    with pytest.raises(ConfigError, match="minutes above 0"):
        Budget(minutes, tmp_path / "clock.json")


def test_candidates_are_different_layers_of_the_target():
    assert candidates(30, 2) == {"first": (0, 1), "ends": (0, 29)}
    assert candidates(30, 4) == {
        "first": (0, 1, 2, 3),
        "ends": (0, 1, 2, 29),
        "spread": (0, 10, 19, 29),
    }


def test_a_target_without_a_chat_template_is_refused(tmp_path):
    model = load_model(write_tiny_model(tmp_path), "cpu", "float32")
    with pytest.raises(ConfigError, match="no chat template"):
        turns_of(model)


@pytest.mark.parametrize("values", [(), (0.0,), (11.0,)])
def test_temperatures_must_draw(values):
    with pytest.raises(ValueError, match="temperature"):
        SynthesisSettings(temperatures=values)


def test_only_llamas_are_cut(tmp_path):
    from specdecode.distil.student import Student

    model = load_model(write_tiny_model(tmp_path, "gpt2"), "cpu", "float32")
    with pytest.raises(ModelMismatchError, match="only Llama targets"):
        Student(model, (0,), torch.zeros(VOCABULARY, 32))


def test_a_draft_deeper_than_the_target_is_refused(target):
    from specdecode.distil.student import Student

    with pytest.raises(ConfigError, match="the target has 3 layers"):
        Student(load_model(target, "cpu", "float32"), (0, 1, 2, 3), torch.zeros(VOCABULARY, 32))


def test_defaults_are_those_of_the_command():
    assert (TrainingSettings().layers, TrainingSettings().head) == (2, 8192)
