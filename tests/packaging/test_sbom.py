"""The list of dependencies is that of the lock, and says under which licence each is."""

from __future__ import annotations

import email
import json
import re

import pytest

from pipelines import sbom
from pipelines.licences import licence_of
from specdecode import __version__
from specdecode.errors import ConfigError
from tests.docs.commands import ROOT

LOCK = (ROOT / "requirements.lock").read_text("utf-8")
BILL = (ROOT / "sbom.cdx.json").read_text("utf-8")
PAGE = (ROOT / "docs/licences.md").read_text("utf-8")
CLASSIFIER = "Classifier: License :: OSI Approved :: MIT License\n"


class Stated:
    """A distribution that is nothing but metadata."""

    def __init__(self, text, version="1"):
        self.metadata, self.version = email.message_from_string(text), version


def test_both_files_are_up_to_date_with_the_lock():
    """Else run `python -m pipelines.sbom`."""
    pins = sbom.locked(LOCK)
    assert len(pins) == sum("==" in line for line in LOCK.splitlines() if line[:1] != "#")
    assert [(p.name, p.version) for p in sbom.read(BILL)] == pins
    rows = re.findall(r"^\| ([a-z0-9-]+) \| (\d\S*) \| .+ \|$", PAGE, re.MULTILINE)
    assert rows == pins


def test_the_page_and_the_bill_say_the_same():
    rows = re.findall(r"^\| ([a-z0-9-]+) \| (\d\S*) \| (.+) \|$", PAGE, re.MULTILINE)
    bill = [(p.name, p.version, p.licence.replace("|", "\\|")) for p in sbom.read(BILL)]
    assert rows == bill


def test_the_bill_is_written_as_it_was_read():
    document = json.loads(BILL)
    assert sbom.document(sbom.read(BILL)) == document
    assert document["metadata"]["component"]["version"] == __version__
    assert len({part["bom-ref"] for part in document["components"]}) == len(document["components"])


def test_hardly_a_package_is_without_a_licence():
    without = [p.name for p in sbom.read(BILL) if p.licence == sbom.UNKNOWN]
    assert len(without) <= 5, without


def test_names_compare_as_pip_compares_them():
    assert sbom.locked("# a\nRuamel.YAML_x==1.0; python_version < '3'\n\nb==2\n") == [
        ("b", "2"),
        ("ruamel-yaml-x", "1.0"),
    ]


def test_what_is_not_installed_keeps_what_was_known_of_the_same_version():
    before = [sbom.Package("no-such-package", "1", "MIT")]
    assert list(sbom.packages("no-such-package==1\n", before)) == before
    (other,) = sbom.packages("no-such-package==2\n", before)
    assert other.licence == sbom.UNKNOWN


def test_another_version_than_the_locked_one_tells_nothing():
    (found,) = sbom.packages("numpy==0.0.1\n")
    assert found.licence == sbom.UNKNOWN


def test_the_same_packages_give_the_same_serial_number_and_others_another():
    one, two = sbom.Package("a", "1", "MIT"), sbom.Package("a", "2", "MIT")
    number = sbom.document([one])["serialNumber"]
    assert number == sbom.document([one])["serialNumber"] != sbom.document([two])["serialNumber"]


@pytest.mark.parametrize(
    ("stated", "licence"),
    [
        ("License-Expression: MIT OR Apache-2.0\nLicense: BSD\n", "MIT OR Apache-2.0"),
        (f"License: BSD-3-Clause\n{CLASSIFIER}", "BSD-3-Clause"),
        (f"License: UNKNOWN\n{CLASSIFIER}", "MIT License"),
        (f"License: {'Permission is hereby granted ' * 9}\n", None),
        ("Classifier: License :: OSI Approved\n", None),
        ("Name: x\n", None),
    ],
)
def test_the_licence_is_what_the_metadata_state(stated, licence):
    assert licence_of(Stated(stated)) == licence


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("MIT AND PSF-2.0", {"expression": "MIT AND PSF-2.0"}),
        ("Apache 2.0", {"license": {"name": "Apache 2.0"}}),
        ("BSD", {"license": {"name": "BSD"}}),
    ],
)
def test_only_an_spdx_expression_is_called_one(text, written):
    (component,) = sbom.document([sbom.Package("a", "1", text)])["components"]
    assert component["licenses"] == [written]


def test_check_writes_nothing_and_says_what_to_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "requirements.lock").write_text("numpy==0.0.1\n")
    page = tmp_path / "docs/licences.md"
    page.write_text("<!-- packages -->\n<!-- end of packages -->\n")
    assert sbom.main(["--check"]) == 1
    assert "python -m pipelines.sbom" in capsys.readouterr().err
    assert not (tmp_path / "sbom.cdx.json").exists()
    assert sbom.main([]) == 0
    assert "| numpy | 0.0.1 | not stated |" in page.read_text()
    assert sbom.main(["--check"]) == 0


def test_a_page_without_a_place_for_the_table_is_refused():
    with pytest.raises(ConfigError, match="packages"):
        sbom.page("# no place\n", [])
