"""Who has the key: what the record says of it, and which keys may lie open."""

from __future__ import annotations

import pytest

from specdecode.errors import ConfigError, TamperedError
from specdecode.governance.opened import read_opened
from tests.governance.confirmations import build, prompts
from tests.governance.opening.states import opened_file, show


@pytest.mark.parametrize("custody", ["held", "demonstration"])
def test_the_record_says_whether_the_key_was_held_back(tmp_path, custody):
    site = build(tmp_path, custody=custody)
    show(site, 1)

    assert read_opened(site.vault).custody == custody
    assert site.history.opened.body["custody"] == custody


def test_a_record_that_says_another_custody_than_the_ledger_is_refused(tmp_path):
    site = build(tmp_path, custody="demonstration")
    show(site, 1)
    content = opened_file(site).read_bytes()
    opened_file(site).write_bytes(content.replace(b'"demonstration"', b'"held"'))

    with pytest.raises(TamperedError, match="not the opening that the ledger has"):
        show(site, 1)


def test_a_key_that_all_may_read_opens_only_a_set_that_says_so(tmp_path):
    folders = {"held": tmp_path / "a", "demonstration": tmp_path / "b"}
    for custody, folder in folders.items():
        folder.mkdir()
        site = build(folder, custody=custody)
        site.key_file.chmod(0o644)
        if custody == "held":
            with pytest.raises(ConfigError, match="others may read this key"):
                show(site, 1)
        else:
            assert [handed.prompt for handed in show(site, 1)] == prompts()[:1]
