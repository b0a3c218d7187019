"""Real routers on a loopback port, in a thread, in front of servers that tests script."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from pathlib import Path

import httpx

from specdecode.rollout.run import Stop, serve
from specdecode.rollout.settings import RouterSettings, Server

TOKEN = "a-token-of-the-tests"  # noqa: S105 - of the tests
MANIFEST = "a" * 64
CHAT_PATH, TEXT_PATH = "/v1/chat/completions", "/v1/completions"


class Routing:
    """A router while it runs.

    Args:
        baseline: address.
        candidate: address.
        folder: of its state.
        settings: other fields of `RouterSettings`; those of the candidate as `candidate_…`.
    """

    def __init__(self, baseline: str, candidate: str, folder: Path, **settings) -> None:
        server = {
            name.removeprefix("candidate_"): settings.pop(name)
            for name in ("candidate_key", "candidate_takes_credentials")
            if name in settings
        }
        key = settings.pop("baseline_key", None)
        self.settings = RouterSettings(
            baseline=Server("plain", baseline, key=key, takes_credentials=True),
            candidate=Server("block", candidate, **server),
            state_dir=folder,
            port=0,
            # A machine that stalls for seconds is no server that cannot be reached.
            **{"token": TOKEN, "finish_s": 5.0, "connect_s": 60.0, **settings},
        )
        self.folder = folder
        self.failure: BaseException | None = None
        self._bound = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._bound.wait(60)
        if self.failure is not None:
            raise self.failure
        self.client = httpx.Client(base_url=self.url, timeout=60)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - for the test's own thread
            self.failure = error
        self._bound.set()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), Stop()

        def ready(host, port):
            self.url = f"http://{host}:{port}"
            self._bound.set()

        await serve(self.settings, ready, self._stop)

    def stop(self) -> None:
        if self._thread.is_alive():
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._stop)
        self._thread.join(60)
        assert not self._thread.is_alive()
        self.client.close()

    def change(self, mode, share=None, **more) -> dict:
        """Put another state into force."""
        version = self.state["version"]
        shares = {"off": 0.0, "shadow": 1.0, "canary": 1.0, "full": 1.0}
        document = {
            "expected_version": version,
            "mode": mode,
            "share": shares[mode] if share is None else share,
            "manifest_sha256": None if mode == "off" else MANIFEST,
            "changed_by": "a test",
            "reason": "it needs it",
            **more,
        }
        reply = self.put(document)
        assert reply.status_code == 200, reply.text
        return reply.json()["state"]

    def put(self, document, token=TOKEN):
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return self.client.put("/rollout", json=document, headers=headers)

    @property
    def told(self) -> dict:
        return self.client.get("/rollout").json()

    @property
    def state(self) -> dict:
        return self.told["state"]

    @property
    def health(self) -> dict:
        return self.told["health"]

    def ask(self, content="hello", *, stream=True, headers=None, **more):
        """A chat request."""
        body = {"model": "m", "messages": [{"role": "user", "content": content}], **more}
        if stream:
            body["stream"] = True
        return self.client.post(CHAT_PATH, json=body, headers=headers)

    def lines(self, kind=None, *, settled=0) -> list[dict]:
        """What the spool holds, once so many requests have come to their end."""
        until = time.monotonic() + 60
        while True:
            found = list(_lines(self.folder / "spool"))
            ended = [line for line in found if line["kind"] in ENDS]
            if len(ended) >= settled:
                return [line for line in found if kind in (None, line["kind"])]
            assert time.monotonic() < until, f"{len(ended)} of {settled} came to an end: {found}"
            time.sleep(0.01)

    def rows(self, settled) -> list[dict]:
        """Rows, once so many requests have come to their end."""
        return [line["record"] for line in self.lines("row", settled=settled)]

    def metric(self, name, **labels) -> float:
        wanted = {f'{label}="{value}"' for label, value in labels.items()}
        for line in self.client.get("/metrics").text.splitlines():
            head, _, value = line.rpartition(" ")
            found, _, inner = head.partition("{")
            if found == f"specdecode:router_{name}" and wanted == set(
                filter(None, inner.rstrip("}").split(","))
            ):
                return float(value)
        return 0.0


ENDS = ("row", "shed", "refused", "cancelled", "unjudged")


def _lines(folder: Path):
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_bytes().splitlines(keepends=True):
            if line.endswith(b"\n"):
                yield json.loads(line)


@contextlib.contextmanager
def routing(baseline, candidate, folder, mode="off", share=None, **settings):
    """A router in a mode."""
    running = Routing(baseline, candidate, Path(folder), **settings)
    try:
        if mode != "off":
            running.change(mode, share)
        yield running
    finally:
        running.stop()


def eventually(condition, seconds=60.0) -> None:
    """Wait until something holds that others bring about."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it never came about"
        time.sleep(0.01)
