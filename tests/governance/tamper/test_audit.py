"""An audit whose words are not what it found."""

from __future__ import annotations

import zipfile

import pytest

from specdecode.governance import Status
from tests.governance.bundles import case, edited, repacked, report
from tests.governance.plans import FASTER
from tests.governance.tamper.attacks import unsigned

AUDITS = {
    "another word": (lambda a: a["arms"]["block"].update(verdict="undecided"), "rules",
                     "'pass', where the numbers say 'undecided'"),
    "evidence above the limit": (lambda a: a["arms"]["block"].update(max_log_e_value=5.0), "audit",
                                 "block: evidence and log e-value"),
    "fewer tokens": (lambda a: a["arms"]["block"].update(tokens_read=9), "audit", "tokens read"),
    "another alpha": (lambda a: a.update(alpha=0.05), "audit", "another alpha"),
    "no arm": (lambda a: a.update(arms={}), "audit", "the audit is of no arm"),
    "log e above its maximum": (lambda a: a["arms"]["block"].update(log_e_value=1.0), "audit",
                                "above its maximum"),
    "no finding on sampled tokens": (lambda a: a["arms"]["block"].update(sampled=None), "audit",
                                     "tokens read and their finding"),
    "a word its findings do not have": (lambda a: a["arms"]["block"].update(verdict="biased"),
                                        "audit", "'biased' is not its findings'"),
    "silence after too few tokens": (lambda a: a["arms"]["block"].update(min_tokens=9999), "audit",
                                     "too few tokens were read"),
    "greedy failures": (lambda a: a["arms"]["block"]["greedy"].update(failures=3), "audit",
                        "greedy rows are not as good"),
}  # fmt: skip


@pytest.mark.parametrize("name", AUDITS)
def test_a_changed_audit_is_seen(bundle, checked, name):
    change, seen_by, cause = AUDITS[name]
    attacked = unsigned(bundle, **{"audit.json": edited(bundle["audit.json"], change)})

    code, wrong, text = checked(repacked(attacked))

    assert code in (3, 12)
    assert seen_by in wrong
    assert cause in text


def test_a_biased_arm_cannot_be_called_lossless(tmp_path, checked):
    found = case(FASTER, reports={"block": report("biased", log_e=6.0)})
    with zipfile.ZipFile(found.write(tmp_path)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}

    def clear(audit):
        arm = audit["arms"]["block"]
        arm["verdict"] = arm["sampled"]["verdict"] = "lossless"

    code, wrong, text = checked(
        repacked(files | {"audit.json": edited(files["audit.json"], clear)})
    )

    assert found.verdict.status is Status.NO_GO
    assert code == 3
    assert wrong == {"audit", "rules"}
    assert "its word is not its log e's" in text
