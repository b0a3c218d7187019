"""Writes the tables of `docs/gate-faults.md` anew."""

from __future__ import annotations

from tests.governance.faults.page import PAGE, written

PAGE.write_text(written(PAGE.read_text("utf-8")), "utf-8")
