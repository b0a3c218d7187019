"""In which order things become durable, and that the plain text has one way out."""

from __future__ import annotations

import ast
from pathlib import Path

import specdecode.governance
from specdecode.governance import opening as opening_module
from specdecode.governance.opened import read_opened
from specdecode.governance.opening import open_once
from specdecode.governance.vault import _Unlocked, read_vault
from tests.governance.confirmations import CANDIDATE, SEALED, prompts
from tests.governance.opening.states import Tag, evidence, opened_file, show


def test_the_prompts_come_once_and_in_the_sealed_order(site):
    assert [handed.prompt for handed in show(site, 3)] == prompts()[:3]
    assert [handed.prompt for handed in show(site, 5)] == prompts()[3:]
    assert show(site, 5) == []
    assert site.history.handed_out == list(range(5))


def test_the_key_is_read_after_the_opening_is_durable_in_both_places(site, monkeypatch):
    seen = []
    real = opening_module.read_share

    def reading(path, **options):
        seen.append((opened_file(site).exists(), site.history.opened is not None))
        return real(path, **options)

    monkeypatch.setattr(opening_module, "read_share", reading)
    show(site, 1)

    assert seen == [(True, True)]


def test_opened_is_there_before_the_ledgers_line(site, monkeypatch):
    seen = []
    real = opening_module.Opening._append

    def appending(self, kind, body):
        seen.append((kind, opened_file(site).exists()))
        return real(self, kind, body)

    monkeypatch.setattr(opening_module.Opening, "_append", appending)
    show(site, 1)

    assert seen == [("opened", True), ("progress", True), ("progress", True)]


def test_a_prompt_is_on_record_before_it_is_decrypted(site, monkeypatch):
    seen = []
    real = _Unlocked.row

    def row(self, index):
        seen.append((index, site.history.handed_out[-1:]))
        return real(self, index)

    monkeypatch.setattr(_Unlocked, "row", row)
    with open_once(site.request()) as opening:
        for _ in opening.prompts():
            pass

    assert seen == [(i, [i]) for i in range(5)]


def test_the_record_names_what_was_opened_and_against_what(site):
    head = site.ledger.head
    show(site, 1, anchor=Tag(), evidence=evidence(head))
    opened, line = read_opened(site.vault), site.history.opened

    assert opened.digests.candidate_sha256 == CANDIDATE
    assert opened.digests.seal_sha256 == site.seal.sha256
    assert opened.digests.merkle_root == site.root
    assert opened.digests.subjects == {
        **SEALED,
        "confirmation": read_vault(site.vault).manifest.sha256,
    }
    assert (opened.anchor, opened.ledger_head) == ("git-tag", head)
    assert line.body == opened.ledger_body()


def test_only_the_opening_and_the_vault_can_decrypt():
    """The plain text has one way out; a second would not be on record."""
    package = Path(specdecode.governance.__file__).parents[1]
    users = set()
    for path in package.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
        names |= {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
        names |= {a.name for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) for a in n.names}
        if names & {"_unlock", "_Unlocked"}:
            users.add(path.relative_to(package).as_posix())

    assert users == {"governance/opening.py", "governance/vault.py"}
