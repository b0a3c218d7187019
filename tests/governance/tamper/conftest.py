"""A bundle to attack, the same for every attack, and the program that must see it."""

from __future__ import annotations

import zipfile

import pytest

from specdecode.governance.verifier import text_of, verify
from specdecode.governance.withheld import Withheld
from tests.governance.bundles import good
from tests.governance.keys import ADA


@pytest.fixture(scope="session")
def bundle(tmp_path_factory):
    """Files of a bundle that is GO, signed as a whole."""
    folder = tmp_path_factory.mktemp("bundle")
    with zipfile.ZipFile(good().write(folder, key=ADA)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture
def checked(tmp_path):
    """Verifies an archive given as bytes: (exit code, checks that were not ok, the output)."""

    def check(archive: bytes, **trusted):
        path = tmp_path / "attacked.zip"
        path.write_bytes(archive)
        verification = verify(path, **trusted)
        wrong = {c["name"] for c in verification["checks"] if c["result"] not in ("ok", "waived")}
        return verification["exit_code"], wrong, text_of(verification)

    return check


@pytest.fixture(scope="session")
def withheld(tmp_path_factory):
    """Files of a bundle whose texts are withheld, one row shown."""
    folder = tmp_path_factory.mktemp("withheld")
    how = Withheld(bytes(32), shown=[good().rows[0].request_id])
    with zipfile.ZipFile(good().write(folder, withheld=how)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}
