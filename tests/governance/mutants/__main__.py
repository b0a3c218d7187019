"""The program."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import hypothesis

from tests.governance.mutants.run import survivors, targets

PAGE = Path("docs/gate-faults.md")


def main() -> int:
    """The program."""
    parser = argparse.ArgumentParser(description="Change the gate's code; see whether tests fail.")
    parser.add_argument("files", nargs="*", help="below specdecode/governance; all by default")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    given = parser.parse_args()
    known_files = {str(path.relative_to("specdecode/governance")) for path in targets([])}
    if unknown := sorted(set(given.files) - known_files):  # nothing changed would read as no gap
        there = ", ".join(sorted(known_files))
        parser.error(f"no such file: {', '.join(unknown)}; there are {there}")
    hypothesis.settings.register_profile("mutants", derandomize=True, database=None)
    hypothesis.settings.load_profile("mutants")
    known, new = PAGE.read_text("utf-8") if PAGE.exists() else "", 0
    for path, tests in targets(given.files).items():
        name = path.relative_to("specdecode/governance")
        count, alive = survivors(path, tests, given.jobs)
        lines = [f"| {name} | {count} | {count - len(alive)} | {len(alive)} |"]
        for line, where, before, after in alive:
            text = f"`{before}` → `{after}`"
            new += text not in known
            lines.append(f"  line {line}, {where}: {text}{'' if text in known else '  (new)'}")
        sys.stdout.write("\n".join([*lines, ""]))
        sys.stdout.flush()
    return 1 if new else 0


if __name__ == "__main__":
    sys.exit(main())
