"""Opened, and the traces removed."""

from __future__ import annotations

import pytest

from specdecode.errors import ConfirmationConsumed, TamperedError
from specdecode.governance.ledger import repair_ledger
from specdecode.governance.opening import open_once
from tests.governance.confirmations import OTHER_CANDIDATE
from tests.governance.opening.states import Tag, evidence, opened_file, show


class TestTracesRemoved:
    def test_opened_deleted(self, site):
        show(site, 1)
        opened_file(site).unlink()

        with pytest.raises(TamperedError, match="the ledger says that the set was opened"):
            open_once(site.request())
        with pytest.raises(ConfirmationConsumed):
            open_once(site.request(OTHER_CANDIDATE))

    @pytest.mark.parametrize(
        "change",
        [
            lambda content: content[:-1],
            lambda content: b"",
            lambda content: content.replace(b"none", b"git-tag"),
            lambda content: content.replace(b"\n", b" \n"),
            lambda content: content.replace(b'"anchor"', b'"ankor"'),
        ],
        ids=["cut", "emptied", "edited", "spaced", "renamed"],
    )
    def test_opened_changed(self, site, change):
        show(site, 1)
        opened_file(site).write_bytes(change(opened_file(site).read_bytes()))

        with pytest.raises(TamperedError, match=r"OPENED: .*restore it"):
            open_once(site.request())
        with pytest.raises((TamperedError, ConfirmationConsumed)):
            open_once(site.request(OTHER_CANDIDATE))

    def test_the_ledger_cut_off_before_the_opening(self, site):
        content = site.ledger.path.read_bytes()
        site.ledger.append("amendment", {"why": "any"})
        show(site, 2)
        site.ledger.path.write_bytes(content)

        with pytest.raises(TamperedError, match="ends before the line at which the set was opened"):
            open_once(site.request())

    def test_both_removed_is_seen_with_an_anchored_head_and_only_then(self, site):
        """The honest limit: without a head kept elsewhere, nothing local is left to see."""
        content = site.ledger.path.read_bytes()
        show(site, 5)
        head = site.ledger.head
        opened_file(site).unlink()
        site.ledger.path.write_bytes(content)

        with pytest.raises(TamperedError, match="cut off"):
            open_once(site.request(OTHER_CANDIDATE, anchor=Tag(), evidence=evidence(head)))
        assert len(show(site, 5, candidate=OTHER_CANDIDATE)) == 5

    def test_an_opened_line_that_is_none(self, site):
        site.ledger.append("opened", {"merkle_root": site.root})

        with pytest.raises(TamperedError, match="line 2: not an opening"):
            open_once(site.request())

    def test_a_last_line_cut_short_by_a_crash_is_repaired_and_the_opening_goes_on(self, site):
        show(site, 1)
        with open_once(site.request()) as opening:
            next(opening.prompts())
        path = site.ledger.path
        path.write_bytes(path.read_bytes()[:-20])

        with pytest.raises(TamperedError, match="specdecode ledger repair"):
            open_once(site.request())
        repair_ledger(path)
        assert [handed.index for handed in show(site, 5)] == [1, 2, 3, 4]
