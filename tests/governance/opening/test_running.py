"""While it is open, and at its end."""

from __future__ import annotations

import pytest

from specdecode.errors import ConfigError, TamperedError
from specdecode.governance.opening import open_once
from tests.governance.confirmations import prompts
from tests.governance.opening.states import show


class TestTheRestOfAnOpening:
    def test_a_prompt_whose_turn_has_not_come_stays_closed(self, site):
        with open_once(site.request()) as opening:
            next(opening.prompts())
            assert opening.handed(0).prompt == prompts()[0]
            for index in (-1, 1, 99):
                with pytest.raises(ConfigError, match="not handed out yet"):
                    opening.handed(index)
                with pytest.raises(ConfigError, match="not handed out yet"):
                    opening.settle(index, "f" * 64, lost=False)

    def test_it_is_not_complete_before_the_last_prompt(self, site):
        show(site, 4)
        with (
            open_once(site.request()) as opening,
            pytest.raises(ConfigError, match="1 prompts have no rows"),
        ):
            opening.complete("e" * 64)
        assert site.history.complete is None

    def test_completing_twice_is_harmless_and_with_other_rows_refused(self, site):
        show(site, 5)
        for _ in range(2):
            with open_once(site.request()) as opening:
                opening.complete("e" * 64)
        with open_once(site.request()) as opening, pytest.raises(TamperedError, match="not those"):
            opening.complete("d" * 64)
        assert site.history.complete == "e" * 64

    def test_drift_during_the_run_is_refused_at_its_end(self, site):
        now = dict(site.present)
        with open_once(site.request(present=lambda: now)) as opening:
            for handed in opening.prompts():
                opening.settle(handed.index, "f" * 64, lost=False)
            now["code"] = "0" * 64
            with pytest.raises(TamperedError, match="code"):
                opening.complete("e" * 64)
        assert site.history.complete is None

    def test_a_prompt_that_was_handed_out_and_never_settled_is_not_handed_out_again(self, site):
        with open_once(site.request()) as opening:
            next(opening.prompts())
        with open_once(site.request()) as opening:
            assert [handed.index for handed in opening.interrupted] == [0]
            assert [handed.index for handed in opening.prompts()] == [1, 2, 3, 4]
