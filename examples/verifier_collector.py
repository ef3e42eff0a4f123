"""A receiver of hooks that proves, without seeing any content, that a verifier ran in a code-mode cell and passed.

python -m examples.verifier_collector --port 9100 --secret-file secret.txt

Give the verifier to the sessions as a tool of its own with fixed arguments, as verifier_tool.py does, never as a use of
exec_command: the name of the tool alone says which command ran. Register two hooks, {"event": "PreToolUse", "type":
"http", "url": "http://127.0.0.1:9100/hook", "payload": "minimal"}, and for PostToolUse. When the script has ended, ask

    GET /verdict?session_id=…&tool_name=run_verifier&parent_tool_use_id=…

where the last is the `tool_call_id` that your exec gave. The answer is {"proven", "reasons", "tool_use_id"}: every use
of the tool in that exec has ended, and passed; and nothing of the session was missing, twice, in conflict or in excess.
One thing that was makes the session unproven for good. What cannot be read, and so may be of any session, makes all of
them so until a restart; with a secret, only what is signed counts. A hook that is not taken in is answered with 400.
"""

from __future__ import annotations

import argparse
import hashlib
import hmac
import json
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from codemode.lifecycle.hook_auditor import HookAuditor

MOST_BYTES = 16 * 1024  # of a payload: minimal ones are far shorter
MOST_REASONS = 100  # that are kept of a session
LATEST = 300  # seconds after which a signature is not taken any more
CONTENT = ("tool_input", "tool_response")
QUESTION = {"session_id", "tool_name", "parent_tool_use_id"}


class Refused(Exception):
    """A hook is not taken in, and answered with 400; the message says why."""


class Use(NamedTuple):  # what the last payload of a call said
    tool_name: str
    place: tuple[str, str | None]  # the type of its source, and the call of exec
    state: str | None = None  # None: it has not ended
    exit_code: int | None = None


@dataclass
class Session:
    auditor: HookAuditor
    reasons: list[str] = field(default_factory=list)  # why nothing is proven, whatever is asked
    uses: dict[str, Use] = field(default_factory=dict)  # of all tools, in the order in which they started


class Collector:
    """Keeps at most `most` payloads, without anything in them that it does not need."""

    def __init__(self, accept: str = "exited", secret: bytes | None = None, most: int = 100_000) -> None:
        self._pass = (accept, 0 if accept == "exited" else None)
        self._secret = secret
        self._room = most
        self._sessions: dict[str, Session] = {}
        self._unread: list[str] = []  # of what may be of any session
        self._lock = threading.Lock()

    def take(self, body: bytes | None, signature: str) -> None:
        """A hook's payload, None if it is too long to be one. Raises Refused; without a good signature, no more."""
        if self._secret is not None:
            self._check(self._secret, body, signature)
        with self._lock:
            self._take(body)

    def _check(self, secret: bytes, body: bytes | None, signature: str) -> None:
        stamp, _, digest = signature.removeprefix("t=").partition(",v1=")
        if body is None or not stamp.isascii() or not stamp.isdigit() or len(stamp) > 15:
            raise Refused("the signature is missing, or cannot be checked")
        own = hmac.new(secret, stamp.encode() + b"." + body, hashlib.sha256).hexdigest()
        if not hmac.compare_digest(own.encode(), digest.encode("utf-8", "replace")):
            raise Refused("the signature is wrong")
        if abs(time.time() - int(stamp)) > LATEST:
            raise Refused("the signature is too old")

    def _take(self, body: bytes | None) -> None:
        try:
            session_id = (payload := json.loads(body or b"", object_pairs_hook=unique))["session_id"]
            if not isinstance(session_id, str) or not session_id or len(session_id) > 1024:
                raise ValueError("its session_id is no id")
        except (ValueError, LookupError, TypeError, RecursionError) as problem:
            note(self._unread, f"a payload cannot be read: {type(problem).__name__}")
            raise Refused("the payload cannot be read") from None
        session = self._sessions.get(session_id)
        if self._room <= 0:
            note([] if session is None else session.reasons, "there was no room for a payload")
            raise Refused("there is no room for a further payload")
        self._room -= 1
        if session is None:
            session = self._sessions[session_id] = Session(HookAuditor(session_id))
        wrong = [f"a payload is not minimal: it has {name}" for name in CONTENT if name in payload]
        if wrong := wrong or [f"{finding.code}: {finding.message}" for finding in session.auditor.take(payload)]:
            note(session.reasons, *wrong)
            raise Refused("; ".join(wrong))
        source, status = payload["tool_source"], payload.get("tool_status") or {}
        place = (source["type"], source.get("parent_tool_use_id"))
        ended = (status.get("state"), status.get("exit_code"))
        session.uses[payload["tool_use_id"]] = Use(payload["tool_name"], place, *ended)

    def verdict(self, session_id: str, tool_name: str, parent_tool_use_id: str) -> dict[str, Any]:
        """Whether the tool has passed in that call of exec, and if not, why that is not proven."""
        with self._lock:
            session = self._sessions.get(session_id, Session(HookAuditor()))
            reasons = [*self._unread, *session.reasons]
            named = {tool_use_id: use for tool_use_id, use in session.uses.items() if use.tool_name == tool_name}
        there = {use_id: use for use_id, use in named.items() if use.place == ("code_mode", parent_tool_use_id)}
        if not there:
            elsewhere = ", ".join(sorted({use.place[0] for use in named.values()})) or "none"
            reasons.append(f"the tool was not used in that exec; uses elsewhere in the session: {elsewhere}")
        for tool_use_id, use in there.items():
            if use.state is None:
                reasons.append(f"{tool_use_id} has not ended")
            elif (use.state, use.exit_code) != self._pass:
                reasons.append(f"{tool_use_id} has not passed: {use.state}, exit code {use.exit_code}")
        return {"proven": not reasons, "reasons": reasons, "tool_use_id": next(reversed(there), None)}


def note(reasons: list[str], *more: str) -> None:
    reasons += more[: MOST_REASONS - len(reasons)]


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of two fields of one name, which would count? Raises ValueError."""
    if len(found := dict(pairs)) != len(pairs):
        raise ValueError("a name is there twice")
    return found


class Handler(BaseHTTPRequestHandler):
    """POST /hook and GET /verdict."""

    protocol_version = "HTTP/1.1"
    timeout = 60  # seconds without a byte
    disable_nagle_algorithm = True
    collector: Collector

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        closing, self.close_connection = self.close_connection, True  # unless the body is read to its end, and good
        try:
            if self.path != "/hook" or not (length.isascii() and length.isdigit()):
                raise Refused("POST /hook with a Content-Length")
            body = self.rfile.read(int(length)) if len(length) < 9 and int(length) <= MOST_BYTES else None
            if body is not None and len(body) < int(length):  # so its sender has no answer, and denies the call
                raise Refused("the body was cut off")
            self.collector.take(body, self.headers.get("Codemode-Signature", ""))
        except Refused as problem:
            self.answer(400, {"error": str(problem)})
        else:
            self.close_connection = closing
            self.answer(200, {})

    def do_GET(self) -> None:
        path, query = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query)
        if path != "/verdict" or set(query) != QUESTION or any(len(values) > 1 for values in query.values()):
            self.answer(400, {"error": f"GET /verdict with {', '.join(sorted(QUESTION))}, each once"})
        else:
            self.answer(200, self.collector.verdict(**{name: values[0] for name, values in query.items()}))

    def answer(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Connection", "close" if self.close_connection else "keep-alive")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None: ...


def main() -> None:
    parser = argparse.ArgumentParser(description="prove that a verifier ran in a code-mode cell and passed")
    parser.add_argument("--port", type=int, default=0, help="to listen on at 127.0.0.1; any free one by default")
    parser.add_argument("--secret-file", type=Path, help="take only what is signed with this secret")
    parser.add_argument("--accept", choices=("exited", "completed"), default="exited", help="what a pass is")
    parser.add_argument("--most", type=int, default=100_000, help="payloads to keep")
    options = parser.parse_args()
    secret = options.secret_file and options.secret_file.read_text(encoding="utf-8").strip().encode()
    if secret == b"":
        parser.error("the secret is empty")
    Handler.collector = Collector(options.accept, secret, options.most)
    with ThreadingHTTPServer(("127.0.0.1", options.port), Handler) as server:
        print(f"verifier_collector listens on http://127.0.0.1:{server.server_port}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
