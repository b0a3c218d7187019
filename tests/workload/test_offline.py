"""Arms are measured side by side, every outcome becomes a row, and a cut run resumes."""

from __future__ import annotations

import errno
import io
import logging
import multiprocessing
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console

from specdecode.decoding.params import SamplingParams
from specdecode.errors import ConfigError, NumericalError, UserError
from specdecode.measurement.records import Record, read_records
from specdecode.measurement.spool import RowSpool
from specdecode.workload.offline import WARM_UP_TOKENS, Measured, measure
from specdecode.workload.sampling import settings_from
from specdecode.workload.schedule import select_prompts
from tests.workload.examples import compiled

MANIFEST = "a" * 64
SETTINGS = settings_from(
    [{"name": "greedy", "temperature": 0, "max_tokens": 24}, {"name": "sampled", "max_tokens": 24}]
)


class FakeEngine:
    """Answers "yes"; logs its calls to a list shared by all arms; fails where told to."""

    def __init__(self, arm: str, calls: list[tuple[str, SamplingParams]]) -> None:
        self.arm, self.calls = arm, calls
        self.fail: dict[int, BaseException] = {}
        self.answer: Any = "yes"
        self.draft_failure: str | None = None

    def generate(self, prompts: list[list[int]], params: SamplingParams) -> Sequence[Any]:
        (prompt,) = prompts
        assert prompt
        recorded = params.max_tokens != WARM_UP_TOKENS
        number = sum(p.max_tokens != WARM_UP_TOKENS for _, p in self.calls)
        self.calls.append((self.arm, params))
        if recorded and number in self.fail:
            raise self.fail[number]
        return [
            SimpleNamespace(
                token_ids=(5, 6, 7),
                text=self.answer,
                finish_reason="stop",
                acceptance=SimpleNamespace(steps=2, drafted=4, accepted=1, histogram=(1, 1, 0)),
                timing=SimpleNamespace(
                    ttft_s=0.1, tpot_s=0.05, e2e_s=0.2, draft_s=0.04, verify_s=0.05, other_s=0.11
                ),
                target_tokens=6,
                draft_failure=self.draft_failure,
            )
        ]


class Lab:
    """Fake engines over one shared call list, and a spool on disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.calls: list[tuple[str, SamplingParams]] = []
        self.engines = {arm: FakeEngine(arm, self.calls) for arm in ("plain", "token", "block")}
        self.prompts: pa.Table = select_prompts(compiled(), "development", 4)

    def fail(self, number: int, error: BaseException) -> None:
        for engine in self.engines.values():
            engine.fail[number] = error

    def run(self, **options: Any) -> Measured:
        with RowSpool(self.folder / "spool", MANIFEST) as spool:
            return measure(
                self.prompts,
                self.engines,
                SETTINGS,
                spool,
                master_seed=7,
                manifest_sha256=MANIFEST,
                profile="smoke",
                **options,
            )

    def rows(self) -> list[Record]:
        with RowSpool(self.folder / "spool", MANIFEST) as spool:
            return spool.records()


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def test_one_row_per_prompt_setting_and_arm(lab: Lab, tmp_path: Path) -> None:
    done = lab.run()

    assert done == Measured(total=24, resumed=0, written=24, failed=0)
    rows = lab.rows()
    assert len({row.key for row in rows}) == 24
    assert [row.order_index for row in rows] == list(range(24))
    row = rows[0]
    assert row.request_id == f"{row.prompt_id}/{row.sampling_name}/{row.arm}"
    assert (row.stage, row.profile, row.manifest_sha256) == ("offline", "smoke", MANIFEST)
    assert (row.output_token_ids, row.output_tokens, row.output_text) == ([5, 6, 7], 3, "yes")
    assert (row.steps, row.drafted, row.accepted) == (2, 4, 1)
    assert row.acceptance_histogram == [1, 1, 0]
    assert (row.ttft_s, row.tpot_s, row.e2e_s) == (0.1, 0.05, 0.2)
    assert (row.draft_s, row.verify_s, row.other_s) == (0.04, 0.05, 0.11)
    assert row.quality == 1.0
    assert row.error is None
    assert row.peak_rss_bytes is not None
    assert row.peak_rss_bytes > 2**20
    assert row.prompt_token_ids == lab.prompts["prompt_token_ids"][0].as_py()
    with RowSpool(tmp_path / "spool", MANIFEST) as spool:
        spool.finish(tmp_path / "rows.parquet")
    assert len(read_records(tmp_path / "rows.parquet")) == 24


def test_engines_are_warmed_up_without_a_row_and_then_run_as_scheduled(lab: Lab) -> None:
    lab.run()

    warm, real = lab.calls[:6], lab.calls[6:]
    assert all(params.max_tokens == WARM_UP_TOKENS for _, params in warm)
    assert [arm for arm, _ in real] == [row.arm for row in lab.rows()]
    assert [params.seed for _, params in real] == [row.seed for row in lab.rows()]
    assert len({params.seed for _, params in real}) == 24
    assert all(params.max_tokens == 24 for _, params in real)


def test_a_failing_generation_is_a_row_and_the_others_go_on(lab: Lab) -> None:
    lab.fail(4, NumericalError("NaN logits in row 0"))

    done = lab.run()

    assert (done.written, done.failed) == (24, 1)
    (bad,) = [row for row in lab.rows() if row.error]
    assert bad.order_index == 4
    assert bad.error == "NumericalError: NaN logits in row 0"
    assert bad.seed is not None
    metrics = bad.model_dump(
        include={"output_tokens", "output_token_ids", "output_text", "finish_reason", "ttft_s"}
        | {"tpot_s", "e2e_s", "steps", "drafted", "accepted", "acceptance_histogram", "quality"}
    )
    assert set(metrics.values()) == {None}


def test_a_result_that_makes_no_sense_is_a_failure_not_a_crash(lab: Lab) -> None:
    lab.engines["block"].answer = 17

    done = lab.run()

    assert done.failed == 8
    assert all((row.error is not None) == (row.arm == "block") for row in lab.rows())


def test_a_reply_whose_drafter_failed_is_no_row_of_its_arm(
    lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    lab.engines["block"].draft_failure = "propose: RuntimeError: broken"

    done = lab.run()

    assert (done.written, done.failed) == (24, 8)
    assert "the drafter failed (propose: RuntimeError: broken)" in caplog.text
    for row in lab.rows():
        assert (row.error is not None) == (row.arm == "block")
        if row.error is not None:
            assert row.error.startswith("EngineError: the drafter failed (propose: RuntimeError")
            assert (row.output_token_ids, row.e2e_s, row.drafted, row.quality) == (None,) * 4


def test_a_text_that_could_not_be_decoded_has_no_quality(lab: Lab) -> None:
    lab.engines["block"].answer = None

    lab.run()

    assert {row.quality for row in lab.rows() if row.arm == "block"} == {None}
    assert {row.quality for row in lab.rows() if row.arm == "plain"} == {1.0}


def test_after_ctrl_c_the_next_run_does_the_rest_and_nothing_twice(
    lab: Lab, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = Lab(tmp_path / "uninterrupted")
    whole.run()
    lab.fail(10, KeyboardInterrupt())

    with pytest.raises(KeyboardInterrupt):
        lab.run()

    assert "10 of 24 rows are safe" in caplog.text
    again = Lab(tmp_path)
    assert again.run() == Measured(total=24, resumed=10, written=14, failed=0)
    assert again.run() == Measured(total=24, resumed=24, written=0, failed=0)
    same = {"started_at", "peak_rss_bytes"}
    assert [r.model_dump(exclude=same) for r in again.rows()] == [
        r.model_dump(exclude=same) for r in whole.rows()
    ]


def _run_until_killed(folder: Path) -> None:
    lab = Lab(folder)

    class Killer(FakeEngine):
        def generate(self, prompts: list[list[int]], params: SamplingParams) -> Sequence[Any]:
            if len(self.calls) == 6 + 7:  # warm-ups and recorded generations
                os.kill(os.getpid(), signal.SIGKILL)
            return super().generate(prompts, params)

    lab.engines = {arm: Killer(arm, lab.calls) for arm in lab.engines}
    lab.run()


def test_a_killed_process_loses_at_most_the_generation_in_flight(tmp_path: Path) -> None:
    process = multiprocessing.get_context("spawn").Process(
        target=_run_until_killed, args=(tmp_path,)
    )
    process.start()
    process.join(300)

    assert process.exitcode == -signal.SIGKILL
    assert Lab(tmp_path).run() == Measured(total=24, resumed=7, written=17, failed=0)


def test_a_failed_row_is_not_tried_again_until_it_succeeds(lab: Lab, tmp_path: Path) -> None:
    lab.fail(0, RuntimeError("boom"))
    lab.run()

    assert Lab(tmp_path).run().written == 0


class FullDisk:
    """A spool on a disk that is full after some rows."""

    def __init__(self, room: int, code: int = errno.ENOSPC) -> None:
        self.room, self.code = room, code
        self.rows: list[Record] = []

    @property
    def done(self) -> frozenset[tuple[str, str, str]]:
        return frozenset(row.key for row in self.rows)

    def append(self, record: Record) -> None:
        if len(self.rows) >= self.room:
            raise OSError(self.code, "no room")
        self.rows.append(record)


def measure_into(lab: Lab, spool: Any) -> Measured:
    return measure(
        lab.prompts, lab.engines, SETTINGS, spool, master_seed=7, manifest_sha256=MANIFEST
    )


def test_a_full_disk_says_how_many_rows_are_safe_and_how_to_go_on(lab: Lab) -> None:
    spool = FullDisk(room=5)

    with pytest.raises(UserError, match=r"disk is full\. 5 of 24 rows are safe\. Free some space"):
        measure_into(lab, spool)

    spool.room = 99
    assert measure_into(lab, spool) == Measured(total=24, resumed=5, written=19, failed=0)


def test_a_disk_that_fills_up_while_decoding_is_not_blamed_on_the_engine(lab: Lab) -> None:
    lab.fail(3, OSError(errno.ENOSPC, "no room"))
    spool = FullDisk(room=99)

    with pytest.raises(UserError, match="3 of 24 rows are safe"):
        measure_into(lab, spool)

    assert [row.error for row in spool.rows] == [None] * 3


def test_another_storage_error_keeps_its_trace(lab: Lab) -> None:
    with pytest.raises(OSError, match="no room"):
        measure_into(lab, FullDisk(room=2, code=errno.EIO))


def test_an_arm_that_cannot_even_warm_up_leaves_rows_that_say_so(lab: Lab) -> None:
    class Broken:
        def generate(self, prompts: list[list[int]], params: SamplingParams) -> Sequence[Any]:
            raise RuntimeError("no kernel")

    lab.engines["token"] = Broken()  # type: ignore[assignment]

    assert lab.run().failed == 8


def test_nothing_to_measure_is_refused(lab: Lab) -> None:
    lab.prompts = lab.prompts.slice(0, 0)

    with pytest.raises(ConfigError, match="there is no prompt"):
        lab.run()


def test_a_prompt_that_occurs_twice_is_refused(lab: Lab) -> None:
    lab.prompts = pa.concat_tables([lab.prompts, lab.prompts])

    with pytest.raises(ConfigError, match="a prompt occurs twice"):
        lab.run()


def test_a_terminal_gets_a_bar_and_a_pipe_gets_few_lines(
    lab: Lab, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    screen = io.StringIO()
    lab.run(console=Console(file=screen, force_terminal=True, width=120))

    assert "24/24" in screen.getvalue()
    assert not [r for r in caplog.records if r.levelno == logging.INFO]

    pipe = io.StringIO()
    Lab(tmp_path / "other").run(console=Console(file=pipe, force_terminal=False))

    assert pipe.getvalue() == ""
    assert [r.message.split(",")[0] for r in caplog.records] == [
        "measure: 24 to do",
        "measure: 24 of 24",
    ]
