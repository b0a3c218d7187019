"""A picture of a page, for the documentation.

    python -m pipelines.report.screenshot reports/evaluation.html docs/images/report.png

Needs Chromium or Chrome on the PATH (Debian: apt install chromium). Nothing else in the project
needs it.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from specdecode.errors import EngineError, MissingPrerequisiteError, UserError

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-crash-reporter",
    "--hide-scrollbars",
)
_SECONDS = 60


def find_browser() -> str:
    """Path of a Chromium-like browser.

    Raises:
        MissingPrerequisiteError: none is on the PATH.
    """
    for name in BROWSERS:
        if found := shutil.which(name):
            return found
    raise MissingPrerequisiteError(
        f"no browser found (looked for {', '.join(BROWSERS)}); Debian: apt install chromium"
    )


def screenshot(page: Path, picture: Path, *, width: int, height: int, dark: bool = False) -> None:
    """Write what a browser shows of the top of a page.

    Args:
        page: HTML file.
        picture: PNG to write.
        width: of the window, in CSS pixels.
        height: likewise.
        dark: ask the page for its dark colours.

    Raises:
        MissingPrerequisiteError: no browser, or no page.
        EngineError: the browser wrote no picture.
    """
    if not page.is_file():
        raise MissingPrerequisiteError(f"{page} is not there; `make evaluate` writes it")
    picture.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as profile:
        # 0 is dark and 1 is light in Blink's own numbering.
        colours = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
        command = [
            find_browser(),
            *_FLAGS,
            colours,
            f"--user-data-dir={profile}",
            f"--window-size={width},{height}",
            f"--screenshot={picture.resolve()}",
            page.resolve().as_uri(),
        ]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    if done.returncode != 0 or not picture.is_file():
        raise EngineError(f"the browser made no picture of {page}: {done.stderr[-500:]}")


def main(argv: Sequence[str] | None = None) -> int:
    """Command line of this module; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m pipelines.report.screenshot")
    parser.add_argument("page", type=Path, nargs="?", default=Path("reports/evaluation.html"))
    parser.add_argument("picture", type=Path, nargs="?", default=Path("docs/images/report.png"))
    parser.add_argument("--width", type=int, default=1200)
    parser.add_argument("--height", type=int, default=1500)
    parser.add_argument("--dark", action="store_true")
    options = parser.parse_args(argv)
    try:
        screenshot(
            options.page,
            options.picture,
            width=options.width,
            height=options.height,
            dark=options.dark,
        )
    except UserError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
