"""What tests of whole bundles look at."""

from __future__ import annotations

import math
import zipfile

from tests.governance.bundles import report

BIASED = report("biased", log_e=math.log(100) + 0.5)
UNDECIDED = report("undecided", tokens=100)
SECRET = bytes(range(32))


def files_of(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def results(verification):
    return {check["name"]: check["result"] for check in verification["checks"]}


def wrong(verification):
    return {name: result for name, result in results(verification).items() if result != "ok"}
