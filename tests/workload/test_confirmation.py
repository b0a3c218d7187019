"""Confirmation prompts are decoded one by one, with the seeds and orders `measure` would give."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from specdecode.errors import ConfigError, EngineError
from specdecode.workload.confirmation import WARM_UP_TEXT, ConfirmationRun
from specdecode.workload.sampling import settings_from
from specdecode.workload.schedule import plan_generations
from tests.workload.examples import ByteTokenizer, prompt

MANIFEST = "a" * 64
SETTINGS = settings_from(
    [{"name": "greedy", "temperature": 0, "max_tokens": 8}, {"name": "sampled", "max_tokens": 16}]
)
ARMS = ("plain", "block")


class Answers:
    """An engine that says "yes" and remembers what it was asked."""

    def __init__(self, calls, fails=False):
        self.calls, self.fails = calls, fails
        self.draft_failure = None

    def generate(self, prompts, params):
        self.calls.append((prompts[0], params.seed))
        if self.fails:
            raise RuntimeError("broken")
        return [
            SimpleNamespace(
                token_ids=(5, 6),
                text="yes",
                finish_reason="stop",
                acceptance=SimpleNamespace(steps=2, drafted=0, accepted=0, histogram=(2,)),
                timing=SimpleNamespace(
                    ttft_s=0.1, tpot_s=0.1, e2e_s=0.2, draft_s=0.0, verify_s=0.2, other_s=0.0
                ),
                target_tokens=2,
                draft_failure=self.draft_failure,
            )
        ]


@pytest.fixture
def calls():
    return []


def made(calls, fails=(), context=200, **changes):
    engines = {arm: Answers(calls, arm in fails) for arm in ARMS}
    options = {"master_seed": 7, "manifest_sha256": MANIFEST, "profile": "full"} | changes
    return ConfirmationRun(engines, SETTINGS, ByteTokenizer(), context, **options)


def document(name="p0", **fields):
    fields = {"reference": ["yes"], "checker": {"type": "exact", "answers": ["yes"]}} | fields
    return prompt(name, "one two", **fields).model_dump(mode="json", by_alias=True)


def test_each_prompt_gives_a_row_per_arm_and_setting(calls):
    rows = list(made(calls).rows(3, document(category="chat", difficulty="hard")))

    assert {row.key for row in rows} == {
        ("p0", arm, setting.name) for arm in ARMS for setting in SETTINGS
    }
    assert [row.order_index for row in rows] == [12, 13, 14, 15]
    for row in rows:
        assert (row.stage, row.profile, row.manifest_sha256) == ("confirmation", "full", MANIFEST)
        assert (row.category, row.difficulty, row.language) == ("chat", "hard", "en")
        assert (row.output_text, row.quality, row.error) == ("yes", 1.0, None)
        assert bytes(row.prompt_token_ids).decode() == "<user>one two</><assistant>"


def test_seeds_and_orders_are_those_of_an_uninterrupted_measurement(calls):
    names = ["p0", "p1", "p2"]
    run = made(calls)
    rows = [row for i, name in enumerate(names) for row in run.rows(i, document(name))]
    plan = plan_generations(names, SETTINGS, ARMS, master_seed=7)

    assert [(r.key, r.seed, r.order_index) for r in rows] == [
        (g.key, g.seed, g.order_index) for g in plan
    ]
    assert [seed for _, seed in calls] == [g.seed for g in plan]


def test_a_row_is_given_before_the_next_one_is_decoded(calls):
    rows = made(calls).rows(0, document())
    for number in range(1, 5):
        next(rows)
        assert len(calls) == number


def test_a_failed_generation_is_a_row(calls):
    rows = list(made(calls, fails=("block",)).rows(0, document()))

    assert {row.arm for row in rows if row.error == "RuntimeError: broken"} == {"block"}
    assert {row.arm for row in rows if row.error is None} == {"plain"}


def test_failed_rows_are_the_same_rows_without_an_answer(calls):
    run = made(calls)
    rows, failed = list(run.rows(2, document())), list(run.failed_rows(2, document(), "lost: x"))

    def asked(row):
        return row.model_dump(
            include={"request_id", "seed", "order_index", "sampling", "prompt_token_ids", "stage"}
        )

    assert [asked(row) for row in failed] == [asked(row) for row in rows]
    for row in failed:
        assert (row.error, row.output_tokens, row.e2e_s, row.quality) == (
            "lost: x",
            None,
            None,
            None,
        )


def test_a_prompt_that_leaves_no_room_is_a_failure_of_every_arm_and_decodes_nothing(calls):
    length = len(b"<user>one two</><assistant>")
    fits, short = (made(calls, context=length + 16 - less) for less in (0, 1))

    assert all(row.error is None for row in fits.rows(0, document()))
    calls.clear()
    rows = list(short.rows(0, document()))
    assert len(rows) == 4
    assert all(row.error.startswith(f"PromptTooLongError: {length} tokens") for row in rows)
    assert calls == []


def test_it_is_warmed_up_with_a_text_of_its_own(calls):
    made(calls).warm_up()

    assert {bytes(ids).decode() for ids, _ in calls} == {f"<user>{WARM_UP_TEXT}</><assistant>"}
    assert len(calls) == len(ARMS) * len(SETTINGS)


@pytest.mark.parametrize("how", ["broken", "drafter"])
def test_an_arm_that_cannot_decode_is_told_before_anything_is_opened(calls, how):
    run = made(calls, fails=("block",) if how == "broken" else ())
    run._engines["block"].draft_failure = None if how == "broken" else "drafter"

    with pytest.raises(EngineError, match=f"nothing was opened: block: .*{how}"):
        run.warm_up()


def test_a_locked_object_that_is_no_prompt_is_told(calls):
    with pytest.raises(ConfigError, match="not a prompt: turns"):
        next(made(calls).rows(0, {"question_id": "a", "category": "chat"}))


def test_without_arms_nothing_can_be_run():
    with pytest.raises(ConfigError, match="there is no arm"):
        ConfirmationRun(
            {}, SETTINGS, ByteTokenizer(), 99, master_seed=1, manifest_sha256="", profile="x"
        )
