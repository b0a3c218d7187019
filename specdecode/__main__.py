"""`python -m specdecode`."""

from __future__ import annotations

from specdecode.cli import main

if __name__ == "__main__":
    main()
