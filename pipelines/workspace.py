"""Scratch copies of the repository, one a profile, for the same dvc.yaml with other parameters.

A profile may not run in the repository itself: its results would overwrite the full ones and its
dvc.lock would go into the next commit. A copy shares the repository's DVC cache, so that converted
weights are never made twice.
"""

from __future__ import annotations

import filecmp
import json
import shutil
import subprocess
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from pipelines.parameters import check, merged, read_mapping
from specdecode.errors import ConfigError, MissingPrerequisiteError

HOME_PROFILE = "full"
MIRRORED = Path(".specdecode/mirrored.json")


def workspace_of(root: Path, profile: str) -> Path:
    """Returns where `profile` runs: the repository for "full", else a folder under .workspaces/.

    Raises:
        ConfigError: params.yaml does not know the profile, or holds what no stage could use.
    """
    params = _load(root / "params.yaml")
    check(params)
    known = params.get("profiles") or {}
    if profile not in known:
        raise ConfigError(
            f"params.yaml has no profile '{profile}'; it has: {', '.join(sorted(known))}"
        )
    if profile != HOME_PROFILE:
        return root / ".workspaces" / profile
    if known[profile]:
        raise ConfigError(
            f"params.yaml: the profile '{HOME_PROFILE}' is the parameters as they stand and takes "
            "no others; change them themselves, or add a profile"
        )
    return root


def refresh(root: Path, profile: str) -> Path:
    """Brings the workspace of `profile` up to date with the repository and returns it.

    Copies every file Git tracks or would track, as it is on disk, except what the pipeline itself
    writes. Files that are gone from the repository go from the copy too; the copy's own results,
    dvc.lock and measured rows stay.
    """
    workspace = workspace_of(root, profile)
    if workspace == root:
        return root
    mirror(root, workspace, {"params.yaml": yaml_text(parameters_of(root, profile))})
    return workspace


def mirror(
    root: Path, workspace: Path, edited: Mapping[str, str], *, without: Collection[str] = ()
) -> None:
    """Brings a scratch copy up to date with the repository; the copy's own results stay.

    Args:
        root: the repository.
        workspace: the copy; made if it is not there.
        edited: files that have another text in the copy, by their name.
        without: files that the copy must not have.

    Raises:
        MissingPrerequisiteError: `root` is no Git checkout.
    """
    workspace.mkdir(parents=True, exist_ok=True)
    wanted = set(_source_files(root)) - set(without)
    for name in sorted(wanted - set(edited)):
        _copy_if_changed(root / name, workspace / name)
    for name, text in edited.items():
        _write_if_changed(workspace / name, text)
    _forget(workspace, (_mirrored_before(workspace) | set(without)) - wanted)
    _write_if_changed(workspace / MIRRORED, json.dumps(sorted(wanted)))
    _write_if_changed(workspace / ".dvc" / "config.local", _dvc_settings(root))


def parameters_of(root: Path, profile: str) -> dict[str, Any]:
    """Returns the parameters a scratch copy of `profile` runs with: its own laid over the rest."""
    params = _load(root / "params.yaml")
    profiles = params.pop("profiles")
    params = merged(params, profiles[profile] or {})
    params["profile"] = profile
    for model in ("target", "draft"):
        params[model]["source"] = _from_anywhere(root, params[model]["source"])
    return params


def yaml_text(content: Mapping[str, Any]) -> str:
    """Returns a mapping as YAML, keys in their order."""
    return yaml.safe_dump(dict(content), sort_keys=False, allow_unicode=True)


def _from_anywhere(root: Path, source: object) -> object:
    """Returns a model source that is a path in the repository as one that holds in a copy too."""
    found = root / source if isinstance(source, str) else None
    return str(found.resolve()) if found and found.exists() else source


def _source_files(root: Path) -> Iterator[str]:
    """Yields the files Git tracks or would track, without those the pipeline writes."""
    listing = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-co", "--exclude-standard", "-z"],
        capture_output=True,
        check=False,
    )
    if listing.returncode != 0:
        raise MissingPrerequisiteError(
            "a profile other than 'full' copies the files Git knows, and this is no Git checkout: "
            + listing.stderr.decode(errors="replace").strip()
        )
    outputs = set(_outputs(root))
    for name in listing.stdout.decode().split("\0"):
        parents = {name, *(str(parent) for parent in Path(name).parents)}
        if name and name != "dvc.lock" and not parents & outputs and (root / name).is_file():
            yield name


def _outputs(root: Path) -> Iterator[str]:
    """Yields every path the stages of dvc.yaml write."""
    for stage in _load(root / "dvc.yaml").get("stages", {}).values():
        for kind in ("outs", "metrics", "plots"):
            for entry in stage.get(kind) or ():
                yield next(iter(entry)) if isinstance(entry, Mapping) else entry


def _copy_if_changed(source: Path, target: Path) -> None:
    if target.is_file() and filecmp.cmp(source, target, shallow=True):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target)


def _write_if_changed(path: Path, text: str) -> None:
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _mirrored_before(workspace: Path) -> set[str]:
    try:
        return set(json.loads((workspace / MIRRORED).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return set()


def _forget(workspace: Path, names: set[str]) -> None:
    for name in names:
        (workspace / name).unlink(missing_ok=True)


def _dvc_settings(root: Path) -> str:
    # Git does not know the copy, so DVC must not ask it.
    return f"[core]\n    no_scm = true\n[cache]\n    dir = {root / '.dvc' / 'cache'}\n"


def _load(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise MissingPrerequisiteError(f"{path} is missing; run this in a clone of the repository")
    return read_mapping(path)
