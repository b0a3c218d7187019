"""A router that keeps to the contract, in place of the network or on loopback."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx

from pipelines.flows.router_client import RouterClient
from specdecode.rollout.state import Mode, RolloutState

TOKEN = "let-me-in"  # noqa: S105 - of a router in a test
NOW = datetime(2026, 1, 10, tzinfo=UTC)


class FakeRouter:
    """Keeps a state as the contract says: bearer token, compare and set, repeats are the same."""

    def __init__(self, on_set: Callable[[RolloutState], object] = lambda _: None) -> None:
        self.on_set = on_set
        self.state = RolloutState()
        self.history: list[RolloutState] = []
        self.recording, self.why = True, None
        self.silent = 0
        self.lose_answers = 0
        self._lock = threading.Lock()

    @property
    def went(self) -> list[tuple[Mode, float]]:
        """The states it was set to, in order."""
        return [(state.mode, state.share) for state in self.history]

    def handle(self, method: str, token: str | None, body: bytes) -> tuple[int, dict[str, Any]]:
        """One request."""
        with self._lock:
            if method == "GET":
                return 200, self._document()
            if token != f"Bearer {TOKEN}":
                return 401, {"error": {"message": "no"}}
            asked = json.loads(body)
            expected = asked.pop("expected_version")
            own = self.state.model_dump(mode="json", include=set(asked))
            if expected == self.state.version - 1 and own == asked:
                return 200, self._document()
            if expected != self.state.version:
                return 409, {"error": {"message": "moved on"}} | self._document()
            self.set(**asked)
            return 200, self._document()

    def set(self, **fields: Any) -> None:
        """Set the state, whoever asks."""
        self.state = RolloutState.model_validate(
            {"version": self.state.version + 1, "changed_at": NOW} | fields
        )
        self.history.append(self.state)
        self.on_set(self.state)

    def transport(self) -> httpx.MockTransport:
        """This router in place of the network."""

        def answer(request: httpx.Request) -> httpx.Response:
            if self.silent:
                self.silent -= 1
                raise httpx.ConnectError("refused")
            token = request.headers.get("authorization")
            status, document = self.handle(request.method, token, request.content)
            if request.method == "PUT" and self.lose_answers:
                self.lose_answers -= 1
                raise httpx.ReadTimeout("lost")
            return httpx.Response(status, json=document)

        return httpx.MockTransport(answer)

    def client(self, token: str | None = TOKEN) -> RouterClient:
        """A client of it."""
        return RouterClient("http://router", token, transport=self.transport())

    @contextlib.contextmanager
    def served(self) -> Iterator[str]:
        """Its address, while it is served on loopback."""
        router = self

        class Handler(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                status, document = router.handle(
                    self.command, self.headers.get("authorization"), self.rfile.read(length)
                )
                content = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_PUT = _answer  # noqa: N815 - as http.server calls them

            def log_message(self, *_: object) -> None:
                """Says nothing."""

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            thread = threading.Thread(target=server.serve_forever, daemon=True)
            thread.start()
            try:
                yield f"http://127.0.0.1:{server.server_port}"
            finally:
                server.shutdown()
                thread.join()

    def _document(self) -> dict[str, Any]:
        state = self.state.model_dump(mode="json", by_alias=True)
        return {"state": state, "health": {"recording": self.recording, "why": self.why}}
