"""Changes the gate's code in one place at a time, and runs the tests that should see it.

    python -m tests.governance.mutants [--jobs N] [FILE ...]

A mutant is one comparison, operator, constant, outcome or condition changed, an entry left out of a
table, or two answers in another order. It is killed when a test fails or takes too long. A survivor
is a change that no test sees: `docs/gate-faults.md` says of each why that does no harm, and one it
does not explain makes the exit code 1. Nothing is written; the changed code exists in the process
that runs the tests only.
"""
