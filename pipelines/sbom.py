"""Writes sbom.cdx.json and docs/licences.md: every locked package, its version and its licence.

    python -m pipelines.sbom           writes both
    python -m pipelines.sbom --check   exit code 1 if one of them is not up to date with the lock

Names and versions come from requirements.lock. Licences come from what the installed packages say
of themselves; a package that is not installed here (another platform's) keeps what the last list
said of it, as long as its version is the same. The same lock gives the same bytes.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

from pipelines.licences import licence_of
from specdecode import __version__
from specdecode.errors import ConfigError

LOCK, SBOM, PAGE = Path("requirements.lock"), Path("sbom.cdx.json"), Path("docs/licences.md")
UNKNOWN = "not stated"
_PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;]+)")
_BEGIN, _END = "<!-- packages -->", "<!-- end of packages -->"


@dataclass(frozen=True, order=True)
class Package:
    """One line of the lock.

    Attributes:
        name: normalised as in PEP 503, so that it compares.
        version: as locked.
        licence: what the package says of itself, or "not stated".
    """

    name: str
    version: str
    licence: str = UNKNOWN

    @property
    def purl(self) -> str:
        """Its package URL."""
        return f"pkg:pypi/{self.name}@{self.version}"


def normalised(name: str) -> str:
    """A package's name as in PEP 503."""
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(lock: str) -> list[tuple[str, str]]:
    """Name and version of every pin, sorted."""
    found = (_PIN.match(line) for line in lock.splitlines())
    return sorted((normalised(pin["name"]), pin["version"]) for pin in found if pin)


def packages(lock: str, before: Iterable[Package] = ()) -> Iterator[Package]:
    """Every locked package with its licence, sorted by name.

    Args:
        lock: text of requirements.lock.
        before: an earlier list, for packages that are not installed here.
    """
    known = {(package.name, package.version): package.licence for package in before}
    for name, version in locked(lock):
        yield Package(
            name, version, _installed(name, version) or known.get((name, version), UNKNOWN)
        )


def _installed(name: str, version: str) -> str | None:
    try:
        found = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None
    return licence_of(found) if found.version.split("+")[0] == version else None


def document(found: Iterable[Package]) -> dict[str, Any]:
    """A bill of materials in CycloneDX 1.6; it has no time, so the same packages give the same."""
    components = [
        {
            "type": "library",
            "bom-ref": package.purl,
            "name": package.name,
            "version": package.version,
            "purl": package.purl,
            "licenses": [] if package.licence == UNKNOWN else [_licence(package.licence)],
        }
        for package in found
    ]
    own = f"pkg:pypi/specdecode@{__version__}"
    content = json.dumps([own, components], sort_keys=True)
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, content)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": "specdecode",
                "version": __version__,
                "purl": own,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": components,
        "dependencies": [{"ref": own, "dependsOn": [part["bom-ref"] for part in components]}],
    }


def _licence(text: str) -> dict[str, Any]:
    """By SPDX expression where it is one, else by the name that the package uses."""
    try:
        return {"expression": str(canonicalize_license_expression(text))}
    except InvalidLicenseExpression:
        return {"license": {"name": text}}


def read(text: str) -> list[Package]:
    """The packages of a bill of materials, as `document` writes it."""
    parts: list[dict[str, Any]] = json.loads(text)["components"]
    return [Package(part["name"], part["version"], _stated(part)) for part in parts]


def _stated(component: dict[str, Any]) -> str:
    if not component["licenses"]:
        return UNKNOWN
    (said,) = component["licenses"]
    return str(said["expression"] if "expression" in said else said["license"]["name"])


def page(text: str, found: Iterable[Package]) -> str:
    """The page with its table made anew.

    Raises:
        ConfigError: the page has no place for it.
    """
    before, begin, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise ConfigError(
            f"{PAGE} needs the lines {_BEGIN} and {_END}: the table goes between them"
        )
    lines = ["| package | version | licence |", "|---|---|---|"]
    for package in found:
        licence = package.licence.replace("|", "\\|")  # else it would end the cell
        lines.append(f"| {package.name} | {package.version} | {licence} |")
    table = "\n".join(lines)
    return f"{before}{begin}\n\n{table}\n\n{end}{after}"


def wanted() -> dict[Path, str]:
    """What both files should hold, for the lock in the current folder."""
    before = read(SBOM.read_text(encoding="utf-8")) if SBOM.exists() else []
    found = list(packages(LOCK.read_text(encoding="utf-8"), before))
    bill = json.dumps(document(found), indent=1, ensure_ascii=False) + "\n"
    return {SBOM: bill, PAGE: page(PAGE.read_text(encoding="utf-8"), found)}


def main(argv: list[str] | None = None) -> int:
    """Writes both files, or checks them.

    Returns:
        0; with --check 1 if a file is not as the lock wants it.
    """
    parser = argparse.ArgumentParser(prog="python -m pipelines.sbom", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args(argv)
    stale = [
        path
        for path, text in wanted().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    for path in stale:
        if options.check:
            sys.stderr.write(f"{path} is not up to date: run python -m pipelines.sbom\n")
        else:
            path.write_text(wanted()[path], encoding="utf-8")
    return 1 if stale and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
