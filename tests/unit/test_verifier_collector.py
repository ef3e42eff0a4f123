"""The collector of the examples proves what happened, and nothing else."""

from __future__ import annotations

import hashlib
import hmac
import json
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.unit.cli_helpers import LONGEST, pipe_of, started
from tests.unit.histories import Event

SECRET = "a secret of the tests"
SOURCE = {
    "type": "code_mode",
    "parent_tool": "exec",
    "parent_tool_use_id": "exec-1",
    "cell_id": "1",
    "runtime_tool_call_id": "call-1",
}
PRE: Event = {
    "hook_event_name": "PreToolUse",
    "session_id": "s-1",
    "turn_id": "turn-1",
    "tool_use_id": "tu_1",
    "tool_name": "run_verifier",
    "tool_source": SOURCE,
}
POST: Event = PRE | {"hook_event_name": "PostToolUse", "tool_status": {"state": "exited", "exit_code": 0}}
QUESTION = {"session_id": "s-1", "tool_name": "run_verifier", "parent_tool_use_id": "exec-1"}


def other(payload: Event, number: int = 2, **changes: Any) -> Event:
    """Of another call in the same cell."""
    source = SOURCE | {"runtime_tool_call_id": f"call-{number}"}
    return payload | {"tool_use_id": f"tu_{number}", "tool_source": source} | changes


def ended(state: str, exit_code: int | None = None) -> Event:
    return {"tool_status": {"state": state, "exit_code": exit_code}}


@contextmanager
def running(*options: str) -> Iterator[httpx.Client]:
    """A collector on a port of its own."""
    with started(sys.executable, "-m", "examples.verifier_collector", "--port", "0", *options) as process:
        line = pipe_of(process.stdout).readline().decode()
        assert line.startswith("verifier_collector listens on http://127.0.0.1:")
        with httpx.Client(base_url=line.split()[-1], timeout=LONGEST) as client:
            yield client


@pytest.fixture(scope="module")
def shared() -> Iterator[httpx.Client]:
    with running() as client:
        yield client


def hook(client: httpx.Client, body: Any, headers: dict[str, str] | None = None) -> int:
    """The status of the answer; what is no bytes is sent as JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = client.post("/hook", content=data, headers=headers)
    assert answer.status_code in {200, 400}
    assert answer.json() == {} if answer.status_code == 200 else set(answer.json()) == {"error"}
    return answer.status_code


def verdict(client: httpx.Client, **changes: str) -> dict[str, Any]:
    answer = client.get("/verdict", params=QUESTION | changes)
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    assert set(found) == {"proven", "reasons", "tool_use_id"}
    assert found["proven"] == (not found["reasons"])
    return found


def signed(body: bytes, secret: str = SECRET, at: float | None = None) -> dict[str, str]:
    stamp = str(int(time.time() if at is None else at))
    digest = hmac.new(secret.encode(), f"{stamp}.".encode() + body, hashlib.sha256).hexdigest()
    return {"Codemode-Signature": f"t={stamp},v1={digest}"}


GOOD = {
    "once": [PRE, POST],
    "twice in one cell": [PRE, other(PRE), other(POST), POST],
    "with another tool that failed": [
        PRE,
        other(PRE, tool_name="lookup"),
        other(POST, tool_name="lookup", **ended("failed")),
        POST,
    ],
    "with another tool that goes on": [other(PRE, tool_name="lookup"), PRE, POST],
    "with a direct use of it that failed": [
        PRE,
        POST,
        PRE | {"tool_use_id": "tu_2", "tool_source": {"type": "direct"}},
        POST | {"tool_use_id": "tu_2", "tool_source": {"type": "direct"}} | ended("exited", 1),
    ],
    "without a turn": [PRE | {"turn_id": None}, POST | {"turn_id": None}],
}
# What is sent, how each is answered, and what a reason says.
BAD: dict[str, tuple[list[Event], list[int], str]] = {
    "nothing": ([], [], "not used in that exec"),
    "no start": ([POST], [400], "end_without_start"),
    "no end": ([PRE], [200], "tu_1 has not ended"),
    "no end of a second use": ([PRE, POST, other(PRE)], [200, 200, 200], "tu_2 has not ended"),
    "wrong order": ([POST, PRE], [400, 400], "reordered_event"),
    "the same start again": ([PRE, PRE, POST], [200, 400, 200], "duplicate_start"),
    "the same start again later": ([PRE, POST, PRE], [200, 200, 400], "duplicate_start"),
    "the same end again": ([PRE, POST, POST], [200, 200, 400], "duplicate_end"),
    "two ends": ([PRE, POST | ended("exited", 1), POST], [200, 200, 400], "conflicting_status"),
    "another source at the end": ([PRE, POST | {"tool_source": {"type": "direct"}}], [200, 400], "conflicting_source"),
    "another tool at the end": ([PRE, POST | {"tool_name": "lookup"}], [200, 400], "conflicting_name"),
    "another turn at the end": ([PRE, POST | {"turn_id": "turn-2"}], [200, 400], "conflicting_source"),
    "a place used twice": ([PRE, POST, PRE | {"tool_use_id": "tu_2"}], [200, 200, 400], "conflicting_source"),
    "another parent of the cell": (
        [
            PRE,
            POST,
            other(PRE, tool_source=SOURCE | {"parent_tool_use_id": "exec-2", "runtime_tool_call_id": "call-2"}),
        ],
        [200, 200, 400],
        "conflicting_source",
    ),
    "a direct call": (
        [PRE | {"tool_source": {"type": "direct"}}, POST | {"tool_source": {"type": "direct"}}],
        [200, 200],
        "not used in that exec; uses elsewhere in the session: direct",
    ),
    "another exec": (
        [payload | {"tool_source": SOURCE | {"parent_tool_use_id": "exec-2"}} for payload in (PRE, POST)],
        [200, 200],
        "not used in that exec; uses elsewhere in the session: code_mode",
    ),
    "another tool": (
        [payload | {"tool_name": "run_verifier2"} for payload in (PRE, POST)],
        [200, 200],
        "not used in that exec; uses elsewhere in the session: none",
    ),
    "no exec": (
        [payload | {"tool_source": SOURCE | {"parent_tool": "other"}} for payload in (PRE, POST)],
        [400, 400],
        "the parent_tool is not exec",
    ),
    "exit code 1": ([PRE, POST | ended("exited", 1)], [200, 200], "tu_1 has not passed: exited, exit code 1"),
    "one of two failed": (
        [PRE, POST | ended("exited", 1), other(PRE), other(POST)],
        [200, 200, 200, 200],
        "tu_1 has not passed",
    ),
    "no exit code": ([PRE, POST | ended("exited")], [200, 400], "unexpected_end"),
    "an exit code of another state": ([PRE, POST | ended("completed", 0)], [200, 400], "unexpected_end"),
    "an exit code that is false": ([PRE, POST | ended("exited", False)], [200, 400], "malformed_event"),
    "an exit code that is 0.0": ([PRE, POST | ended("exited", 0.0)], [200, 400], "malformed_event"),
    "an unknown state": ([PRE, POST | ended("passed")], [200, 400], "malformed_event"),
    **{
        state: ([PRE, POST | ended(state)], [200, 200], f"tu_1 has not passed: {state}, exit code None")
        for state in ("completed", "failed", "cancelled", "denied", "timed_out", "lost")
    },
    "a status of a start": ([PRE | ended("exited", 0), POST], [400, 200], "conflicting_status"),
    "another hook": ([PRE, POST, PRE | {"hook_event_name": "Stop"}], [200, 200, 400], "malformed_event"),
    "no tool_use_id": ([PRE, POST, PRE | {"tool_use_id": None}], [200, 200, 400], "malformed_event"),
    "a tool_source that is no object": ([PRE, POST, PRE | {"tool_source": []}], [200, 200, 400], "malformed_event"),
    "an input": ([PRE | {"tool_input": None}, POST], [400, 400], "not minimal: it has tool_input"),
    "a result": ([PRE, POST | {"tool_response": "ok"}], [200, 400], "not minimal: it has tool_response"),
}


@pytest.mark.parametrize("name", GOOD)
def test_proves_a_pass(shared: httpx.Client, name: str) -> None:
    """All uses in that exec passed, whatever else the session did."""
    session = f"good {name}"
    for payload in GOOD[name]:
        assert hook(shared, payload | {"session_id": session}) == 200
    last = "tu_2" if name.startswith("twice") else "tu_1"
    assert verdict(shared, session_id=session) == {"proven": True, "reasons": [], "tool_use_id": last}


@pytest.mark.parametrize("name", BAD)
def test_proves_nothing_else(shared: httpx.Client, name: str) -> None:
    """And says why."""
    session = f"bad {name}"
    payloads, answers, reason = BAD[name]
    assert [hook(shared, payload | {"session_id": session}) for payload in payloads] == answers
    found = verdict(shared, session_id=session)
    assert not found["proven"]
    assert any(reason in told for told in found["reasons"]), found


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"5",
        b"\xff",
        b"[" * 16000,
        b"1" * 16000,
        b'{"session_id": 5}',
        json.dumps(PRE | {"session_id": "s" * 2000}).encode(),
        b'{"session_id": "s-9", ' + json.dumps(PRE)[1:].encode(),  # which of the two?
        json.dumps(PRE | {"more": "x" * 20_000}).encode(),
    ],
    ids=lambda body: repr(body[:12]),
)
def test_what_cannot_be_read_may_be_of_any_session(body: bytes) -> None:
    """So none is proven any more."""
    with running() as client:
        assert (hook(client, PRE), hook(client, POST)) == (200, 200)
        assert verdict(client)["proven"]
        assert hook(client, body) == 400
        assert verdict(client)["reasons"][0].startswith("a payload cannot be read")


def test_takes_only_what_is_signed(tmp_path: Path) -> None:
    """The rest is refused, and changes nothing: anybody may have sent it."""
    (tmp_path / "secret").write_text(SECRET + "\n")
    pre, post = (json.dumps(payload).encode() for payload in (PRE, POST))
    with running("--secret-file", str(tmp_path / "secret")) as client:
        assert hook(client, pre, signed(pre)) == 200
        stamp = signed(post)["Codemode-Signature"]
        for headers in (
            {},
            signed(post, "another secret"),
            signed(pre),
            signed(post, at=time.time() - 1000),
            signed(post, at=time.time() + 1000),
            *({"Codemode-Signature": text} for text in ("", "t=,v1=", "x", stamp[:-1], f"t=-{stamp[2:]}", "t=1,v1=%")),
        ):
            assert hook(client, post, headers) == 400
            assert verdict(client)["reasons"] == ["tu_1 has not ended"]
        assert hook(client, b"{", {}) == hook(client, b"x" * 20_000, signed(b"")) == 400
        assert hook(client, post, signed(post)) == 200
        assert verdict(client)["proven"]
        assert hook(client, pre, signed(pre)) == 400  # recorded, and sent once more
        assert verdict(client)["reasons"] == ["duplicate_start: the call has started before, and has ended"]
        assert hook(client, b"{", signed(b"{")) == 400
        assert verdict(client, session_id="s-2")["reasons"][0].startswith("a payload cannot be read")


def test_a_pass_of_a_tool_that_is_no_command() -> None:
    """Is that it has completed, if the operator says so; then exit codes prove nothing."""
    with running("--accept", "completed") as client:
        assert (hook(client, PRE), hook(client, POST | ended("completed"))) == (200, 200)
        assert verdict(client)["proven"]
        assert (hook(client, other(PRE)), hook(client, other(POST))) == (200, 200)
        assert verdict(client)["reasons"] == ["tu_2 has not passed: exited, exit code 0"]


def test_keeps_so_much() -> None:
    """What there is no room for is refused, and its session proven no more."""
    with running("--most", "3") as client:
        assert [hook(client, payload) for payload in (PRE, POST, other(PRE, session_id="s-2"))] == [200, 200, 200]
        assert verdict(client)["proven"]
        assert hook(client, PRE | {"session_id": "s-3"}) == 400
        assert verdict(client)["proven"]
        assert not verdict(client, session_id="s-3")["proven"]
        assert hook(client, other(PRE, 3)) == 400
        assert verdict(client)["reasons"] == ["there was no room for a payload"]


def test_a_body_that_is_cut_off_says_nothing(shared: httpx.Client) -> None:
    """Its sender has no answer then, and denies the call."""
    for payload in (PRE, POST):
        assert hook(shared, payload) == 200
    with socket.create_connection((shared.base_url.host, shared.base_url.port or 0), LONGEST) as cut:
        cut.sendall(b"POST /hook HTTP/1.1\r\nContent-Length: 1000\r\n\r\n{")
        cut.shutdown(socket.SHUT_WR)
        assert cut.recv(1000).startswith(b"HTTP/1.1 400 ")
    assert verdict(shared)["proven"]


@pytest.mark.parametrize("length", ["", "x", "-1", "٣"])
def test_a_body_of_unknown_length(shared: httpx.Client, length: str) -> None:
    """Is not read."""
    with socket.create_connection((shared.base_url.host, shared.base_url.port or 0), LONGEST) as connection:
        connection.sendall(f"POST /hook HTTP/1.1\r\nContent-Length: {length}\r\n\r\n".encode())
        assert connection.recv(1000).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(
    "query",
    ["", "session_id=s-1", "session_id=s-1&tool_name=a&tool_name=b&parent_tool_use_id=c", "tool_name=%zz"],
)
def test_a_question_that_is_none(shared: httpx.Client, query: str) -> None:
    """Is told as such; and nothing else is there."""
    assert shared.get(f"/verdict?{query}").status_code == 400
    assert shared.get("/").status_code == shared.post("/verdict", content=b"{}").status_code == 400
