"""Who may open a confirmation set, in which order things become durable, and who is refused."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import pytest

import specdecode.governance
from specdecode.errors import (
    ConfigError,
    ConfirmationConsumed,
    EvidenceError,
    TamperedError,
    UserError,
)
from specdecode.governance import opening as opening_module
from specdecode.governance.anchor import AnchorEvidence
from specdecode.governance.canonical import canonical_bytes
from specdecode.governance.ledger import repair_ledger
from specdecode.governance.opened import OPENED_NAME, progress_body, read_opened
from specdecode.governance.opening import open_once
from specdecode.governance.signing import encode_base64
from specdecode.governance.timestamps import utc_now, utc_text
from specdecode.governance.vault import VAULT_NAME, _Unlocked, read_vault
from specdecode.governance.vault_key import new_share
from tests.governance.confirmations import (
    CANDIDATE,
    OTHER_CANDIDATE,
    SEALED,
    build,
    prompts,
    statement,
)
from tests.governance.keys import STRANGER


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


@pytest.fixture
def site(tmp_path):
    return build(tmp_path)


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


def die_in_append(monkeypatch, kind):
    real = opening_module.Opening._append

    def append(self, found, body):
        if found == kind:
            raise KeyboardInterrupt
        return real(self, found, body)

    monkeypatch.setattr(opening_module.Opening, "_append", append)


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
