"""Lines that no opening writes."""

from __future__ import annotations

import pytest

from specdecode.errors import TamperedError
from specdecode.governance.opened import progress_body
from specdecode.governance.opening import open_once
from tests.governance.opening.states import show


class TestLedgerLinesNoOpeningWrites:
    """Chained correctly by whoever holds the ledger, and still refused."""

    @pytest.mark.parametrize(
        ("body", "problem"),
        [
            (("handed_out", 3), "not the next prompt"),
            (("handed_out", 0), "not the next prompt"),
            (("stored", 2, "f" * 64), "rows of a prompt not shown"),
            (("stored", 0, "f" * 64), "rows of a prompt not shown"),
            (("lost", 0, "f" * 64), "rows of a prompt not shown"),
            (("complete", None, "f" * 64), "the end came before the last prompt"),
            (("complete", 1, "f" * 64), "it names no one prompt"),
            (("complete", None, None), "its digest is out of place"),
            (("handed_out", None), "it names no one prompt"),
            (("handed_out", 2, "f" * 64), "its digest is out of place"),
            (("stored", 1), "its digest is out of place"),
        ],
    )
    def test_progress(self, site, body, problem):
        show(site, 2)  # both settled
        site.ledger.append("progress", progress_body(site.root, *body))

        with pytest.raises(TamperedError, match=f"ledger, line 7: {problem}"):
            open_once(site.request())

    def test_progress_of_another_form(self, site):
        show(site, 1)
        site.ledger.append("progress", {"merkle_root": site.root, "event": "skipped", "index": 1})

        with pytest.raises(TamperedError, match="says nothing an opening writes"):
            open_once(site.request())

    def test_more_prompts_than_there_are(self, site):
        show(site, 5)
        site.ledger.append("progress", progress_body(site.root, "handed_out", 5))

        with pytest.raises(TamperedError, match="not the next prompt"):
            open_once(site.request())

    def test_progress_after_the_end(self, site):
        site.confirm()
        site.ledger.append("progress", progress_body(site.root, "handed_out", 5))

        with pytest.raises(TamperedError, match="progress after the end"):
            open_once(site.request())

    def test_progress_without_an_opening(self, site):
        site.ledger.append("progress", progress_body(site.root, "handed_out", 0))

        with pytest.raises(TamperedError, match="progress before the set was opened"):
            open_once(site.request())

    def test_two_openings(self, site):
        show(site, 1)
        site.ledger.append("opened", site.history.opened.body)

        with pytest.raises(TamperedError, match="opened twice"):
            open_once(site.request())

    def test_lines_about_other_sets_do_not_matter(self, site):
        site.ledger.append("progress", progress_body("0" * 64, "handed_out", 7))
        site.ledger.append("opened", {"merkle_root": "0" * 64})

        assert len(show(site, 5)) == 5
