"""A server for hooks: what it answers is in the path that it is called at; it notes what it is told."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

ANSWERS: dict[str, tuple[int, bytes]] = {
    "allow": (200, b"{}"),
    "deny": (
        200,
        b'{"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "because of X"}}',
    ),
    "ask": (200, b'{"hookSpecificOutput": {"permissionDecision": "ask", "permissionDecisionReason": "odd"}}'),
    "change": (200, b'{"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": {"value": "changed"}}}'),
    "replace": (200, b'{"hookSpecificOutput": {"hookEventName": "PostToolUse", "updatedOutput": "replaced"}}'),
    "no_json": (200, b"allow"),
    "empty": (200, b""),
    "list": (200, b"[]"),
    "unknown_field": (200, b'{"decision": "approve"}'),
    "unknown_decision": (200, b'{"hookSpecificOutput": {"permissionDecision": "maybe"}}'),
    "not_found": (404, b"{}"),
    "error": (500, b"{}"),
    "created": (201, b"{}"),
    "long": (200, b'{"x": "' + b"x" * 40_000_000 + b'"}'),
}
_PATIENCE_S = 15.0


class HookServer(http.server.ThreadingHTTPServer):
    """`payloads` are in the order in which they came. At /hang nothing is answered until `opened` is set."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.payloads: list[dict[str, Any]] = []
        self.paths: list[str] = []  # that they came at
        self.opened = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def hooks(self, before: str = "allow", after: str = "allow", **options: Any) -> list[dict[str, Any]]:
        """As a session declares them."""
        places = (("PreToolUse", before), ("PostToolUse", after))
        return [{"event": event, "type": "http", "url": f"{self.url}/{path}", **options} for event, path in places]

    def of(self, event: str) -> list[dict[str, Any]]:
        """The payloads of one event."""
        return [each for each in list(self.payloads) if each["hook_event_name"] == event]

    def states(self) -> list[str]:
        """How the calls ended that were told of."""
        return [each["tool_status"]["state"] for each in self.of("PostToolUse")]

    def told(self, count: int) -> list[dict[str, Any]]:
        """All payloads, when so many calls were told of."""
        deadline = time.monotonic() + _PATIENCE_S
        while len(self.states()) < count:
            assert time.monotonic() < deadline, self.payloads
            time.sleep(0.005)
        return list(self.payloads)

    def handle_error(self, *_: Any) -> None:
        """A caller that went away is none of its faults."""


class _Handler(http.server.BaseHTTPRequestHandler):
    server: HookServer
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.server.payloads.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        kind = self.path.strip("/")
        self.server.paths.append(kind)
        if kind == "hang":
            self.server.opened.wait(_PATIENCE_S)
            kind = "allow"
        status, body = ANSWERS[kind]
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@contextlib.contextmanager
def hook_server() -> Iterator[HookServer]:
    """One that serves."""
    server = HookServer()
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server
    finally:
        server.opened.set()
        server.shutdown()
        thread.join()
        server.server_close()
