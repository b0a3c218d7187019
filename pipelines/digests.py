"""SHA-256 of files and folders, with a memory so that large weights are not read every time."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from pipelines.stages.command import write_json
from specdecode.models.fingerprint import sha256_file

MEMORY = Path(".cache/digests.json")


def sha256_files(paths: Iterable[Path], memory: Path = MEMORY) -> dict[str, str]:
    """Returns the SHA-256 of each file by its name.

    A file whose place, size, modification and change time and inode are as they were at the last
    reading keeps its digest. The change time cannot be set back by a program, so an edit that
    restores size and modification time is still seen.
    """
    known = _recall(memory)
    digests: dict[str, str] = {}
    seen: dict[str, list[object]] = {}
    for path in paths:
        key, state = str(path.resolve()), _state(path)
        before = known.get(key)
        digest = str(before[1]) if before and before[0] == state else sha256_file(path)
        digests[path.name], seen[key] = digest, [state, digest]
    if any(known.get(key) != value for key, value in seen.items()):
        write_json(memory, {**known, **seen})
    return digests


def sha256_tree(root: Path, suffixes: Sequence[str] = ()) -> str:
    """Returns one digest over names and contents of the files under `root`.

    Args:
        root: what to digest; file names enter relative to it.
        suffixes: only files ending so; empty for all. Compiled Python never enters.
    """
    files = [root] if root.is_file() else sorted(path for path in root.rglob("*") if path.is_file())
    total = hashlib.sha256()
    for path in files:
        if "__pycache__" in path.parts or (suffixes and path.suffix not in suffixes):
            continue
        name = path.name if root.is_file() else path.relative_to(root).as_posix()
        total.update(f"{sha256_file(path)}  {name}\n".encode())
    return total.hexdigest()


def sha256_json(content: object) -> str:
    """Returns the SHA-256 of a value's canonical JSON: sorted keys, no spaces, UTF-8."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _state(path: Path) -> list[int]:
    stat = path.stat()
    return [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino]


def _recall(memory: Path) -> dict[str, list[object]]:
    try:
        recalled = json.loads(memory.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return recalled if isinstance(recalled, dict) else {}
