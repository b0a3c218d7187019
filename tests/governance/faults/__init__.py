"""One planted fault for everything the gate checks, beside the neighbour that passes.

A file for each kind of check. Each holds a table and compares its keys with what the package itself
registers, so that no rule, check or lint can be added without a fault that it finds.
`docs/gate-faults.md` is written from these tables (`python -m tests.governance.faults`).
"""
