"""The offline verifier: a program that travels in every bundle and needs no package."""

from __future__ import annotations

from pathlib import Path

from specdecode.governance.verifier.verify import merkle_root, pack, text_of, verify

PROGRAM = Path(__file__).with_name("verify.py")
GUIDE = Path(__file__).with_name("VERIFY.md")

__all__ = ["GUIDE", "PROGRAM", "merkle_root", "pack", "text_of", "verify"]
