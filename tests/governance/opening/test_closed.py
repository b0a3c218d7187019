"""Still closed: who is refused before anything is consumed."""

from __future__ import annotations

import pytest

from specdecode.errors import ConfigError, EvidenceError, TamperedError
from specdecode.governance.canonical import canonical_bytes
from specdecode.governance.opening import open_once
from specdecode.governance.signing import encode_base64
from specdecode.governance.timestamps import utc_now, utc_text
from specdecode.governance.vault import VAULT_NAME, read_vault
from tests.governance.confirmations import CANDIDATE, OTHER_CANDIDATE, SEALED, statement
from tests.governance.keys import STRANGER
from tests.governance.opening.states import BrokenTag, Tag, evidence, opened_file, still_closed


class TestRefusedBeforeAnythingIsConsumed:
    """Each of these leaves the set closed: repair the cause and open it."""

    def refuse(self, site, error, match, **request):
        with pytest.raises(error, match=match):
            open_once(site.request(**request))
        assert still_closed(site)

    def test_a_vault_that_was_changed(self, site):
        content = (site.vault / VAULT_NAME).read_bytes()
        (site.vault / VAULT_NAME).write_bytes(content[:50] + b"x" + content[51:])
        with pytest.raises(TamperedError, match=f"{VAULT_NAME}: not the file its manifest names"):
            open_once(site.request())
        assert not opened_file(site).exists()

    def test_a_ledger_that_was_edited(self, site):
        site.ledger.append("verdict", {"status": "GO"})
        path = site.ledger.path
        path.write_bytes(path.read_bytes().replace(b'"seal"', b'"opened"', 1))
        with pytest.raises(TamperedError, match="edited"):
            open_once(site.request())
        assert not opened_file(site).exists()

    def test_a_ledger_cut_off_behind_the_anchor(self, site):
        path = site.ledger.path
        content = path.read_bytes()
        site.ledger.append("verdict", {"status": "NO_GO"})
        head = site.ledger.head
        path.write_bytes(content)
        match = "no line from the seal on has the anchored head"
        self.refuse(site, TamperedError, match, anchor=Tag(), evidence=evidence(head))

    def test_an_anchor_older_than_the_seal(self, site):
        """It says nothing about whether the seal was there."""
        head = site.ledger.head
        again = site.sealed_again(SEALED | {"plan": "1" * 64})
        match = "no line from the seal on has the anchored head"
        self.refuse(again, TamperedError, match, anchor=Tag(), evidence=evidence(head))

    def test_an_anchor_whose_proof_does_not_hold(self, site):
        shown = evidence(site.ledger.head)
        self.refuse(site, TamperedError, "another one now", anchor=BrokenTag(), evidence=shown)

    @pytest.mark.parametrize("name", [None, "none"])
    def test_a_plan_sealed_with_an_anchor_and_no_evidence_of_it(self, site, name):
        tagged = site.sealed_again({**SEALED, "plan": "1" * 64}, anchor="git-tag")
        shown = name and evidence(tagged.ledger.head, name)
        match = "sealed with the anchor git-tag: give its evidence"
        self.refuse(tagged, ConfigError, match, evidence=shown)

    def test_a_ledger_that_never_had_the_seal(self, site):
        site.ledger.path.unlink()
        self.refuse(site, TamperedError, "the ledger has no seal")

    def test_a_seal_that_a_later_one_replaced(self, site):
        site.sealed_again(SEALED)
        self.refuse(site, EvidenceError, "sealed anew")

    def test_a_seal_by_a_stranger(self, site):
        strange = site.sealed_again(key=STRANGER)
        self.refuse(strange, TamperedError, "no signers file lists")

    def test_a_seal_whose_content_was_exchanged_under_its_signature(self, site):
        """Also put on record in the ledger, as someone with all files would."""
        at = utc_now()
        other = canonical_bytes(statement(SEALED | {"plan": "0" * 64}, utc_text(at)))
        forged = site.seal.model_copy(update={"payload": encode_base64(other)})
        body = {"seal_sha256": forged.sha256, "envelope": forged.to_json()}
        site.ledger.append("seal", body, at=at)
        self.refuse(site, TamperedError, "does not fit what was signed", seal=forged)

    @pytest.mark.parametrize(
        "fields",
        [
            {"predicateType": "https://specdecode.dev/approval/v1"},
            {"_type": "https://in-toto.io/Statement/v0.1"},
            {"subject": []},
            {"subject": [{"name": "plan", "digest": {"sha1": "0" * 40}}]},
            {"extra": 1},
        ],
        ids=["approval", "version", "empty", "sha1", "extra"],
    )
    def test_an_envelope_that_holds_no_seal(self, site, fields):
        self.refuse(
            site.sealed_again(SEALED, **fields), TamperedError, "not a signed|the envelope holds"
        )

    @pytest.mark.parametrize("subjects", [SEALED, SEALED | {"confirmation": "0" * 64}])
    def test_a_seal_about_other_prompts(self, site, subjects):
        other = site.sealed_again(subjects)
        self.refuse(other, TamperedError, "not about this confirmation set")

    @pytest.mark.parametrize("name", [*SEALED, "candidate"])
    def test_drift_of_anything_sealed(self, site, name):
        now = site.present | {name: "0" * 64}
        self.refuse(site, TamperedError, rf"{name} \(sealed .*now 0000", present=lambda: now)

    @pytest.mark.parametrize("name", [*SEALED, "candidate"])
    def test_a_sealed_subject_that_nothing_tells_of(self, site, name):
        now = {key: value for key, value in site.present.items() if key != name}
        self.refuse(site, TamperedError, rf"{name} \(nothing tells", present=lambda: now)

    def test_every_drifted_subject_is_named(self, site):
        self.refuse(site, TamperedError, "code.*inputs.*lock.*order.*plan", present=dict)

    @pytest.mark.parametrize("candidate", ["", "latest", "C" * 64, "c" * 63])
    def test_a_candidate_that_is_not_frozen(self, site, candidate):
        self.refuse(site, ConfigError, "freeze the candidate first", candidate=candidate)

    def test_a_candidate_other_than_the_sealed_one(self, site):
        manifest = read_vault(site.vault).manifest.sha256
        named = site.sealed_again({**SEALED, "confirmation": manifest, "candidate": CANDIDATE})
        self.refuse(named, TamperedError, "about another candidate", candidate=OTHER_CANDIDATE)

    def test_a_key_file_that_is_not_there(self, site):
        self.refuse(site, ConfigError, "no such key file", key_files=[site.folder / "absent"])

    def test_too_few_keys(self, site):
        self.refuse(site, ConfigError, "opens with 1 keys together", key_files=[])

    def test_no_vault(self, site):
        with pytest.raises(ConfigError, match="cannot be read"):
            open_once(site.request(vault=site.folder / "elsewhere"))
