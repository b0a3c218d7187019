"""How tests bring a confirmation set into a state, and see which one it is in."""

from __future__ import annotations

from specdecode.errors import TamperedError
from specdecode.governance import opening as opening_module
from specdecode.governance.anchor import AnchorEvidence
from specdecode.governance.opened import OPENED_NAME
from specdecode.governance.opening import open_once


class Tag:
    """An anchor that believes what it is shown."""

    name = "git-tag"

    def verify(self, evidence):
        assert evidence.name == self.name


class BrokenTag(Tag):
    def verify(self, evidence):
        raise TamperedError("the tag is another one now")


def evidence(head, name="git-tag"):
    return AnchorEvidence(name=name, head=head, proof=None)


def opened_file(site):
    return site.vault / OPENED_NAME


def show(site, count, **request):
    """Open and hand out `count` prompts, each settled."""
    with open_once(site.request(**request)) as opening:
        shown = []
        for handed in opening.prompts():
            shown.append(handed)
            opening.settle(handed.index, "f" * 64, lost=False)
            if len(shown) == count:
                break
        return shown


def still_closed(site):
    return not opened_file(site).exists() and site.history.opened is None


def die_in_append(monkeypatch, kind):
    real = opening_module.Opening._append

    def append(self, found, body):
        if found == kind:
            raise KeyboardInterrupt
        return real(self, found, body)

    monkeypatch.setattr(opening_module.Opening, "_append", append)
