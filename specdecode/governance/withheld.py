"""Rows whose texts must not leave: their numbers, and a salted hash of each whole row.

Everything the verdict is computed from stays readable. What is withheld is committed to by a leaf
per row, SHA-256(0x00 || salt || JSON line), and one Merkle root (RFC 6962, section 2.1); the salt
keeps a short prompt from being guessed. Single rows can be shown in full, now or later.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from specdecode.errors import ConfigError
from specdecode.governance.verifier import merkle_root

FIELDS = ("output_text", "output_token_ids", "prompt_token_ids")
LEAST_SECRET_BYTES = 32


@dataclass(frozen=True)
class Withheld:
    """How rows are withheld.

    Args:
        secret: at least 32 random bytes, from which every salt follows. Keep it: without it no row
            can be shown later, and with it texts can be guessed from their hashes.
        shown: `request_id`s of rows to be shown in full, such as an auditor's sample.
    """

    secret: bytes
    shown: Sequence[str] = ()

    def files(self, lines: Sequence[str]) -> tuple[dict[str, bytes], dict[str, Any]]:
        """What stands in the bundle in place of the rows.

        Args:
            lines: the rows as JSON lines, in order; at least one.

        Returns:
            Files by name, and what `record.json` says of the rows.

        Raises:
            ConfigError: the secret is short, or no row has a `request_id` to be shown.
        """
        if len(self.secret) < LEAST_SECRET_BYTES:
            raise ConfigError(
                f"the secret has {len(self.secret)} bytes; texts could be guessed from their "
                f"hashes: take {LEAST_SECRET_BYTES} random ones"
            )
        rows = [json.loads(line) for line in lines]
        names = [str(row["request_id"]) for row in rows]
        if unknown := sorted(set(self.shown) - set(names)):
            raise ConfigError(f"no row has the request_id {unknown[0]}, so it cannot be shown")
        salts = [_salt(self.secret, name) for name in names]
        leaves = [_leaf(salt, line) for salt, line in zip(salts, lines, strict=True)]
        shown = [
            {"index": index, "salt": salts[index].hex(), "line": lines[index]}
            for index, name in enumerate(names)
            if name in self.shown
        ]
        files = {
            "rows.jsonl": _joined(_dumps(_public(row)) for row in rows),
            "rows.leaves": _joined(leaf.hex() for leaf in leaves),
            "rows.shown.json": _dumps(shown).encode("utf-8"),
        }
        root = merkle_root(leaves).hex()
        return files, {"form": "hashes", "withheld": list(FIELDS), "root": root}


def _salt(secret: bytes, name: str) -> bytes:
    return hmac.new(secret, name.encode("utf-8"), hashlib.sha256).digest()


def _leaf(salt: bytes, line: str) -> bytes:
    return hashlib.sha256(b"\x00" + salt + line.encode("utf-8")).digest()


def _public(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in FIELDS}


def _dumps(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False)


def _joined(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode("utf-8")
