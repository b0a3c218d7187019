"""The verifier as a program: alone, with the standard library, and its ways of answering."""

from __future__ import annotations

import ast
import json
import sys
import zipfile

import pytest

from specdecode.governance.verifier import PROGRAM, pack, verify
from tests.governance.bundle.looks import files_of, wrong
from tests.governance.bundles import audit_of, good


def test_a_good_bundle_is_go_with_every_check_in_order(path):
    verification = verify(path)

    assert verification["status"] == "GO"
    assert verification["exit_code"] == 0
    assert wrong(verification) == {}
    assert len(verification["checks"]) == 15


def test_the_program_in_the_bundle_checks_it_without_the_project(path, stranger, tmp_path):
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path / "unpacked")
    program = tmp_path / "unpacked" / "verify.py"

    for bundle in (path, tmp_path / "unpacked"):
        done = stranger(program, bundle)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.splitlines()[-1] == "GO"
    assert "ModuleNotFoundError" in stranger("-c", "import numpy").stderr


def test_one_json_document_is_printed_on_request(path, stranger):
    done = stranger(PROGRAM, path, "--json")

    assert json.loads(done.stdout)["checks"] == verify(path)["checks"]


@pytest.mark.parametrize("arguments", [[], ["none.zip"], ["--head"]])
def test_wrong_usage_is_exit_code_2(stranger, arguments):
    assert stranger(PROGRAM, *arguments).returncode == 2


def test_the_program_uses_the_standard_library_and_grammar_of_python_3_9():
    tree = ast.parse(PROGRAM.read_text("utf-8"), feature_version=(3, 9))
    modules = {
        name.name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for name in node.names
    }
    modules |= {node.module.split(".")[0] for node in ast.walk(tree)
                if isinstance(node, ast.ImportFrom)}  # fmt: skip

    assert modules <= sys.stdlib_module_names


def test_a_check_that_crashes_is_a_failed_check(tmp_path):
    files = files_of(good().write(tmp_path))
    path = tmp_path / "other.zip"
    path.write_bytes(pack(files | {"audit.json": b"[]"}))

    found = {check["name"]: check["text"] for check in verify(path)["checks"]}

    assert "could not be checked: TypeError" in found["audit"]


def test_the_audit_is_of_other_rows(tmp_path):
    other = audit_of(good().rows[1:])

    assert verify(good().write(tmp_path, audit=other))["exit_code"] == 3
