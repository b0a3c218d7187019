"""Several holders, several copies, several processes."""

from __future__ import annotations

import shutil

import pytest

from specdecode.errors import ConfigError, ConfirmationConsumed, TamperedError, UserError
from specdecode.governance import opening as opening_module
from specdecode.governance.opened import OPENED_NAME
from specdecode.governance.opening import open_once
from tests.governance.confirmations import CANDIDATE, OTHER_CANDIDATE, build
from tests.governance.opening.states import opened_file, show, still_closed


class TestSeveralHolders:
    def test_all_keys_together_open_it_in_any_order(self, tmp_path):
        site = build(tmp_path, holders=2)
        both = [tmp_path / "holder.key", tmp_path / "holder2.key"]

        with pytest.raises(ConfigError, match="opens with 2 keys together"):
            open_once(site.request())
        assert still_closed(site)
        assert len(show(site, 2, key_files=both)) == 2
        assert len(show(site, 5, key_files=both[::-1])) == 3

    def test_the_same_key_twice_is_not_two_holders(self, tmp_path):
        site = build(tmp_path, holders=2)

        with pytest.raises(ConfigError, match="given twice"):
            open_once(site.request(key_files=[site.key_file] * 2))
        assert site.history.handed_out == []


class TestCopies:
    def test_a_copy_of_the_vault_made_before_is_no_second_chance(self, site):
        shutil.copytree(site.vault, site.folder / "copy")
        show(site, 1)

        with pytest.raises(ConfirmationConsumed):
            open_once(site.request(OTHER_CANDIDATE, vault=site.folder / "copy"))
        with pytest.raises(TamperedError, match="OPENED: the ledger says"):
            open_once(site.request(vault=site.folder / "copy"))

    def test_two_copies_opened_at_the_same_moment_have_one_winner(self, site, monkeypatch):
        """The other one has its OPENED made when this one comes to the ledger."""
        shutil.copytree(site.vault, site.folder / "copy")
        real = opening_module.Opening._create

        def create(self, *arguments):
            opened = real(self, *arguments)
            monkeypatch.undo()
            show(site, 1, vault=site.folder / "copy")
            return opened

        monkeypatch.setattr(opening_module.Opening, "_create", create)
        with pytest.raises(ConfirmationConsumed, match="a copy of this vault is being used"):
            open_once(site.request())
        assert site.history.handed_out == [0]

    def test_a_copy_at_work_stops_the_other_before_it_sees_the_next_prompt(self, site):
        shutil.copytree(site.vault, site.folder / "copy")
        with open_once(site.request()) as opening:
            shown = opening.prompts()
            next(shown)
            shutil.copy(opened_file(site), site.folder / "copy" / OPENED_NAME)
            show(site, 1, vault=site.folder / "copy")
            with pytest.raises(ConfirmationConsumed, match="a copy of this vault"):
                next(shown)
        assert site.history.handed_out == [0, 1]

    def test_opened_made_by_someone_who_holds_no_lock(self, site, monkeypatch):
        def there(*_arguments, **_options):
            raise FileExistsError

        monkeypatch.setattr(opening_module, "create_file", there)
        with pytest.raises(ConfirmationConsumed, match="at this moment"):
            open_once(site.request())


class TestOneAtATime:
    def test_while_it_is_open_nobody_else_comes_in(self, site):
        with open_once(site.request()) as opening:
            for candidate in (CANDIDATE, OTHER_CANDIDATE):
                with pytest.raises(UserError, match="another process has this"):
                    open_once(site.request(candidate))
            opening.close()  # twice is harmless

        assert len(show(site, 5)) == 5

    def test_a_refusal_lets_go_of_the_lock(self, site):
        with pytest.raises(TamperedError):
            open_once(site.request(present=dict))

        assert len(show(site, 5)) == 5

    def test_a_closed_opening_hands_out_nothing(self, site):
        with open_once(site.request()) as opening:
            pass

        with pytest.raises(ConfigError, match="closed"):
            next(opening.prompts())
        assert site.history.handed_out == []
