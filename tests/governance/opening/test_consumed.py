"""Opened once: no second opening, whatever happened to the first."""

from __future__ import annotations

import pytest

from specdecode.errors import ConfigError, ConfirmationConsumed, TamperedError, UserError
from specdecode.governance.opened import read_opened
from specdecode.governance.opening import open_once
from specdecode.governance.vault import read_vault
from specdecode.governance.vault_key import new_share
from tests.governance.confirmations import OTHER_CANDIDATE, SEALED
from tests.governance.opening.states import die_in_append, show, still_closed


class TestConsumed:
    def test_a_second_opening_for_another_candidate_is_refused_and_told_what_to_do(self, site):
        show(site, 1)

        with pytest.raises(ConfirmationConsumed, match="differ now: candidate") as told:
            open_once(site.request(OTHER_CANDIDATE))
        assert isinstance(told.value, UserError)
        assert "lock and seal new prompts" in str(told.value)
        assert len(site.history.handed_out) == 1

    def test_it_stays_refused_when_every_prompt_was_measured(self, site):
        site.confirm()

        with pytest.raises(ConfirmationConsumed):
            open_once(site.request(OTHER_CANDIDATE))

    def test_sealing_anew_does_not_reopen_it(self, site):
        show(site, 1)
        manifest = read_vault(site.vault).manifest.sha256
        again = site.sealed_again({**SEALED, "confirmation": manifest, "plan": "1" * 64})
        now = site.present | {"plan": "1" * 64}

        with pytest.raises(TamperedError, match="opened before the plan was sealed"):
            open_once(again.request(present=lambda: now))

    def test_of_two_plans_sealed_for_one_set_the_first_to_open_it_has_it(self, site):
        manifest = read_vault(site.vault).manifest.sha256
        other = site.sealed_again({**SEALED, "confirmation": manifest, "plan": "1" * 64})
        now = site.present | {"plan": "1" * 64}
        show(site, 1)

        with pytest.raises(ConfirmationConsumed, match="differ now: seal, plan"):
            open_once(other.request(present=lambda: now))

    def test_an_opening_that_died_before_the_ledger_knew_is_consumed_all_the_same(
        self, site, monkeypatch
    ):
        die_in_append(monkeypatch, "opened")
        with pytest.raises(KeyboardInterrupt):
            open_once(site.request())
        monkeypatch.undo()
        assert site.history.opened is None

        with pytest.raises(ConfirmationConsumed):
            open_once(site.request(OTHER_CANDIDATE))
        assert show(site, 1)[0].index == 0  # the same opening completes the ledger and goes on
        assert site.history.opened.body == read_opened(site.vault).ledger_body()

    def test_lines_of_others_may_come_between_opened_and_its_line(self, site, monkeypatch):
        die_in_append(monkeypatch, "opened")
        with pytest.raises(KeyboardInterrupt):
            open_once(site.request())
        monkeypatch.undo()
        site.ledger.append("amendment", {"why": "of another plan"})

        assert len(show(site, 2)) == 2

    def test_a_wrong_key_consumes_the_set_but_the_right_one_goes_on(self, site):
        new_share(site.folder / "wrong.key")
        with pytest.raises(ConfigError, match="the vault opens with the keys"):
            open_once(site.request(key_files=[site.folder / "wrong.key"]))
        assert not still_closed(site)
        assert site.history.handed_out == []

        with pytest.raises(ConfirmationConsumed):
            open_once(site.request(OTHER_CANDIDATE))
        assert len(show(site, 5)) == 5

    def test_drift_is_refused_on_a_resume_too(self, site):
        show(site, 1)
        now = site.present | {"code": "0" * 64}

        with pytest.raises(TamperedError, match="code"):
            open_once(site.request(present=lambda: now))
