"""A soak of the router: what passes, what doesn't, and that no check can be met by nothing."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path

import aiohttp
import pytest
from aiohttp.test_utils import TestServer

from pipelines.route_bench.upstream import make_app
from pipelines.router_soak import __main__ as program
from pipelines.router_soak.accounts import Kept, Users, account, kept_in
from pipelines.router_soak.backend import faulty_app
from pipelines.router_soak.page import BEGIN, END, write_page
from pipelines.router_soak.soak import Plan, run_soak
from pipelines.soak.rule import Rule
from specdecode.errors import ConfigError
from specdecode.measurement.records import RECORD_SCHEMA, to_table
from specdecode.rollout.spool import Spool
from tests.rollout.factories import asked, record

HEALTH = {
    "recording": True,
    "why": None,
    "unrecorded": 0,
    "ahead_of_record": 0,
    "spool": {"recorded": 40, "lost": 0},
    "candidate": {"spilled": {"rps": 2}},
}
USERS = Users(
    sent=45,
    whole=Counter(plain=23, block=18),
    retried=1,
    failed=1,
    leaving=3,
)
"""Beside 40 rows: 2 spilled, and all 3 who left are cancelled."""


def rows(count=40, errors=(38, 39), **fields):
    """Every other one of the candidate; of the errors the candidate has all."""
    found = []
    for number in range(count):
        bad = number in errors
        arm = "block" if bad or (number % 2 and number != 37) else "plain"
        more = {"error": "http_500: planted"} if bad else {}
        found.append(record(number, arm, **more, **fields))
    return found


def kept(**changes):
    values = {"rows": to_table(rows()), "ended": Counter(cancelled=3), "health": HEALTH}
    return Kept(**values | changes)


def failed(users=USERS, what=None, share=0.5):
    return [check.name for check in account(users, what or kept(), share) if not check.passed]


class TestAccounts:
    """Each can fail, and for its own reason."""

    def test_a_sound_router_passes_all(self):
        assert failed() == []

    @pytest.mark.parametrize(
        ("changes", "name"),
        [
            ({"sent": 46}, "no row lost"),
            ({"sent": 44}, "no row lost"),
            ({"unanswered": 1}, "no row lost"),
            ({"whole": Counter(plain=24, block=18)}, "successes"),
            ({"whole": Counter(plain=23, block=14)}, "successes"),
            ({"failed": 2}, "errors"),
        ],
        ids=["lost", "made-up", "unanswered", "success-lost", "success-made-up", "error-lost"],
    )
    def test_users_know_better(self, changes, name):
        assert failed(Users(**vars(USERS) | changes)) == [name]

    def test_errors_that_nobody_saw(self):
        users = Users(**vars(USERS) | {"retried": 0, "failed": 0, "leaving": 1})

        assert "errors" in failed(users)

    def test_a_request_with_two_rows(self):
        twice = [*rows(39, errors=(37, 38)), record(1, "block")]

        assert "one row each" in failed(what=kept(rows=to_table(twice)))

    @pytest.mark.parametrize(
        "health",
        [
            None,
            HEALTH | {"recording": False, "why": "a full disk"},
            HEALTH | {"unrecorded": 1},
            HEALTH | {"ahead_of_record": 1},
            HEALTH | {"spool": {"recorded": 40, "lost": 1}},
            HEALTH | {"spool": {"recorded": 41, "lost": 0}},
        ],
        ids=["silent", "not-recording", "unrecorded", "ahead", "lost", "not-in-the-spool"],
    )
    def test_what_the_router_says_of_itself(self, health):
        assert "record" in failed(what=kept(health=health))

    def test_a_share_that_is_not_held(self):
        assert failed(share=0.05) == ["sample ratio"]

    def test_nothing_is_no_success(self):
        nothing = kept(rows=RECORD_SCHEMA.empty_table(), ended=Counter())

        assert {"no row lost", "sample ratio"} <= set(failed(Users(), nothing))


def test_a_spool_is_read_as_it_is(tmp_path):
    with Spool(tmp_path) as spool:
        spool.append(record(1))
        spool.begin(asked(2))
        spool.without_row("cancelled", asked(2)["request_id"], "left")
    found = kept_in(tmp_path, HEALTH)

    assert (found.rows.num_rows, found.ended, found.faults) == (1, Counter(cancelled=1), ())


def test_a_spool_that_is_damaged_is_a_fault_and_no_row(tmp_path):
    with Spool(tmp_path) as spool:
        spool.append(record(1))
    (tmp_path / "rows-00000001.jsonl").write_bytes(b"{}\n")
    found = kept_in(tmp_path, HEALTH)

    assert found.rows.num_rows == 0
    assert "rows-00000001.jsonl" in found.faults[0]


def test_a_candidate_that_fails_breaks_off_and_answers_500_in_turn():
    async def scene():
        server = TestServer(faulty_app(make_app(0.0, 2, 0.0), 1.0, seed=0))
        found = []
        async with server, aiohttp.ClientSession() as client:
            for _ in range(4):
                try:
                    async with client.post(
                        server.make_url("/v1/chat/completions"), json={"stream": True}
                    ) as reply:
                        await reply.read()
                        found.append(reply.status)
                except aiohttp.ClientPayloadError:
                    found.append("cut")
            async with client.get(server.make_url("/health")) as reply:
                assert reply.status == 200
        return found

    assert asyncio.run(scene()) == [500, "cut", 500, "cut"]


REPORT = {
    "passed": False,
    "machine": {"hardware": {"cpu": "a CPU", "cores": 2}},
    "plan": {"minutes": 2.0},
    "started_at": "2026-12-01T00:00:00+00:00",
    "users": {"sent": 45, "leaving": 3},
    "checks": [{"name": "ratio", "found": "a|b", "wanted": "50%", "passed": False}],
}


class TestPage:
    def test_only_what_is_between_the_marks_changes(self, tmp_path):
        page = tmp_path / "page.md"
        page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
        write_page(page, REPORT)
        write_page(page, REPORT)
        text = page.read_text()

        assert text.startswith(f"before\n{BEGIN}\n**Failed**: 2 minutes on a CPU, 2 cores")
        assert "| ratio | a\\|b | 50% | no |" in text
        assert text.endswith(f"{END}\nafter\n")
        assert "old" not in text

    def test_a_page_without_a_place_is_refused(self, tmp_path):
        with pytest.raises(ConfigError, match="put the lines"):
            write_page(tmp_path / "page.md", REPORT)


def test_a_folder_that_is_in_use_is_refused(tmp_path):
    (tmp_path / "a").touch()

    with pytest.raises(ConfigError, match="is not empty"):
        run_soak(Plan(), tmp_path)


@pytest.mark.parametrize("options", [["--minutes", "0"], ["--faulty", "1.5"], ["--speed", "x"]])
def test_wrong_options_are_told(options, capsys):
    with pytest.raises(SystemExit) as ended:
        program.main(options)

    assert ended.value.code == 2
    assert options[0] in capsys.readouterr().err


@pytest.mark.slow
def test_a_short_soak_of_the_real_router(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    # Seconds can see only leaks that are far larger than those of the default rule; and a block of
    # a twelfth of them is too short for a row in every one where the machine stalls for a moment.
    monkeypatch.setattr("pipelines.soak.rule.BLOCKS", 3)
    plan = Plan(
        minutes=0.15, every_s=0.1, faulty=0.1, leaving_per_s=4.0, rule=Rule(100_000, 100), seed=1
    )
    report = run_soak(plan, tmp_path / "soak")
    checks = {check["name"]: check for check in report["checks"]}
    users, told = report["users"], report["kept"]

    # How many samples there are is a matter of the machine; all else is the router's.
    bad = [check for name, check in checks.items() if not check["passed"] and name != "samples"]
    assert bad == []
    assert users["retried"] > 0
    assert users["failed"] > 0
    assert users["leaving"] > 5
    assert told["errors"] >= users["retried"] + users["failed"]
    assert json.loads((tmp_path / "soak" / "router-soak.json").read_text()) == report
