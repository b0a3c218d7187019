"""A browser without a window, for pages that fill themselves by script, such as MLflow's.

`screenshot.py` suits a page that is whole once it is loaded. Here one waits until something is to
be seen, asks the page for its text, and takes the picture then. Chromium is driven over its own
DevTools protocol (https://chromedevtools.github.io/devtools-protocol), on this machine only.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from websockets.sync.client import connect
from websockets.sync.connection import Connection

from pipelines.report.screenshot import find_browser
from specdecode.errors import EngineError

_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-crash-reporter",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
)
_START_S, _ANSWER_S, _LOOK_S = 60.0, 60.0, 0.25
_LARGEST = 64 * 2**20


@dataclass
class Page:
    """One page of a running browser.

    Attributes:
        socket: connection to it.
    """

    socket: Connection
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def open(self, address: str) -> None:
        """Goes to an address; what is there comes later (`wait_for`).

        Raises:
            EngineError: nothing answers there.
        """
        self._call("Page.navigate", url="about:blank")  # a change after "#" alone loads nothing
        answer = self._call("Page.navigate", url=address)
        if told := answer.get("errorText"):
            raise EngineError(f"{address}: the browser says {told}")

    def remember(self, **stored: object) -> None:
        """Makes every page find these in its local storage, as after an earlier visit."""
        script = "".join(
            f"localStorage.setItem({json.dumps(name)}, {json.dumps(json.dumps(value))});"
            for name, value in stored.items()
        )
        self._call(
            "Page.addScriptToEvaluateOnNewDocument", source=f"try {{ {script} }} catch (_) {{}}"
        )

    def evaluate(self, script: str) -> Any:
        """The value of a JavaScript expression on this page.

        Raises:
            EngineError: it failed.
        """
        answer = self._call("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in answer:
            raise EngineError(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def text(self) -> str:
        """What the page says, as a reader sees it."""
        return str(self.evaluate("document.body ? document.body.innerText : ''"))

    def wait_for(self, *words: str, seconds: float = 90.0) -> str:
        """Waits until the page says all of these, and returns what it says.

        Raises:
            EngineError: it does not, in that time; the message has what it said instead.
        """
        deadline = time.monotonic() + seconds
        while True:
            said = self.text()
            missing = [word for word in words if word not in said]
            if not missing:
                return said
            if time.monotonic() > deadline:
                raise EngineError(f"after {seconds:g} s there is no {missing} on:\n{said[:3000]}")
            time.sleep(_LOOK_S)

    def settle(self, seconds: float = 1.5) -> None:
        """Lets charts and fades come to rest."""
        time.sleep(seconds)

    def picture(self, path: Path) -> None:
        """Writes what is in the window as PNG."""
        answer = self._call("Page.captureScreenshot", format="png")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(answer["data"]))

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        self.socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:  # events come in between, and nobody asked for them
            answer = json.loads(self.socket.recv(timeout=_ANSWER_S))
            if answer.get("id") == number:
                break
        if "error" in answer:
            raise EngineError(f"the browser refused {method}: {answer['error']}")
        result: dict[str, Any] = answer["result"]
        return result


@contextlib.contextmanager
def browser(width: int, height: int) -> Iterator[Page]:
    """A page of a browser that ends with this block.

    Args:
        width: of the window, in CSS pixels.
        height: likewise.

    Raises:
        MissingPrerequisiteError: no browser is installed; the message says how to get one.
        EngineError: it does not start.
    """
    # Its children may still write when it is told to end.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [find_browser(), *_FLAGS, f"--user-data-dir={profile}"]
        command += [f"--window-size={width},{height}", "about:blank"]
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            try:
                with connect(_address(process, Path(profile)), max_size=_LARGEST) as socket:
                    page = Page(socket)
                    page._call("Page.enable")
                    page._call(
                        "Emulation.setDeviceMetricsOverride",
                        width=width, height=height, deviceScaleFactor=1, mobile=False,
                    )  # fmt: skip
                    yield page
            finally:
                process.terminate()
                try:
                    process.wait(timeout=10)
                except subprocess.TimeoutExpired:
                    process.kill()


def _address(process: subprocess.Popen[bytes], profile: Path) -> str:
    """Where the first page listens; the browser writes its port into its profile."""
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError, ValueError, StopIteration):
            port = int((profile / "DevToolsActivePort").read_text(encoding="utf-8").split()[0])
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json") as answer:
                pages = json.load(answer)
            return str(next(p["webSocketDebuggerUrl"] for p in pages if p["type"] == "page"))
        time.sleep(_LOOK_S)
    raise EngineError(f"the browser did not start within {_START_S:g} s")
