"""Callers with a key that want everything, and callers without one that hold what they can: others are served."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.damage import answer_of, connect, read_to_the_end, request, resident_kib
from tests.faults.rig import Service, service, until_found
from tests.faults.server import PATIENCE_S
from tests.faults.tally import Tally

KEY, OTHER = "key-of-somebody-greedy", "key-of-somebody-else"
BEARER, OTHER_BEARER = f"Authorization: Bearer {KEY}", f"Authorization: Bearer {OTHER}"
PATIENCE = 1.0  # seconds
CONNECTIONS = 40
MIB = 1024 * 1024
EVENTS = "/v1/sessions/default/events"


@contextlib.contextmanager
def keyed(folder: Path, *flags: str) -> Iterator[Service]:
    """A server with two keys; its own client has the second one."""
    keys = folder / "keys"
    keys.write_text(f"{KEY}\n{OTHER}\n")
    with service(folder, "--key-file", str(keys), *flags) as made:
        made.client.headers["Authorization"] = f"Bearer {OTHER}"
        yield made


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("server")
    with keyed(folder, "--request-timeout", str(PATIENCE), "--max-connections", str(CONNECTIONS)) as made:
        yield made


def asked(server: Service, *headers: str, path: str = "/v1/sessions") -> tuple[int, Any]:
    """The answer to a GET on a connection of its own."""
    with connect(server.port) as plug:
        plug.sendall(request(path, None, "Connection: close", *headers, method="GET"))
        return answer_of(read_to_the_end(plug))


def audited(server: Service, code: str) -> dict[str, Any]:
    """The last line of the audit with this code, waited for."""

    def last() -> dict[str, Any] | None:
        lines = [json.loads(line) for line in server.said.splitlines() if line.startswith("{")]
        return next((line for line in reversed(lines) if line.get("code") == code), None)

    found: dict[str, Any] = until_found(last, f"a line of {code}")
    return found


def test_who_has_no_key_holds_no_connection(server: Service, tally: Tally) -> None:
    """Requests that were refused before their body came make room, as idle connections do."""
    plugs: list[socket.socket] = []
    for _ in range(CONNECTIONS):
        plugs.append(connect(server.port))
        plugs[-1].sendall(request("/v1/exec", b"", length=1000))
        assert plugs[-1].recv(65536).startswith(b"HTTP/1.1 401")
    refused = sum(asked(server, OTHER_BEARER)[0] != 200 for _ in range(10))
    for plug in plugs:
        plug.close()
    tally.add("bodies that never come, without a key", tried=CONNECTIONS, disturbed=refused)
    assert refused == 0


def test_one_tenant_leaves_connections_for_others(server: Service, tally: Tally) -> None:
    """A quarter of them may have its streams; one more is refused, and others are served."""
    plugs: list[socket.socket] = []
    for _ in range(CONNECTIONS // 4):
        plugs.append(connect(server.port))
        plugs[-1].sendall(request(EVENTS, None, BEARER, method="GET"))
        assert plugs[-1].recv(65536).startswith(b"HTTP/1.1 200")
    status, told = asked(server, BEARER, path=EVENTS)
    refused = sum(asked(server, OTHER_BEARER)[0] != 200 for _ in range(5))
    line = audited(server, "too_many_followers")
    for plug in plugs:
        plug.close()
    tally.add("streams of one tenant, as many as it may have", tried=len(plugs), disturbed=refused)
    assert (status, told["code"], refused) == (429, "too_many_followers", 0)
    assert (line["path"], line["tenant"] != "-") == (EVENTS, True)
    until_found(lambda: asked(server, BEARER)[0] == 200, "its place is free again")


def test_what_came_quickly_buys_no_silence(server: Service, tally: Tally) -> None:
    """Four MiB at once and then nothing: ended after the patience, not an hour later."""
    size = 5 * MIB
    with connect(server.port) as plug:
        plug.sendall(request("/v1/exec", b" " * (size - MIB), BEARER, length=size))
        began = time.monotonic()
        status, told = answer_of(read_to_the_end(plug))
        took = time.monotonic() - began
    tally.add("a long body that stops halfway")
    assert (status, told["code"], took < 10) == (408, "request_timeout", True)
    line = audited(server, "request_timeout")
    assert (line["method"], line["path"], line["status"]) == ("POST", "/v1/exec", 408)
    assert line["tenant"] not in ("-", "")


def test_one_tenant_leaves_room_for_the_bodies_of_others(tmp_path: Path, tally: Tally) -> None:
    """It may have three quarters of all bytes that are on the way."""
    size, codes = 16 * MIB, []
    with keyed(tmp_path) as server, contextlib.ExitStack() as stack:
        plugs = [stack.enter_context(connect(server.port)) for _ in range(13)]
        for plug in plugs:
            with contextlib.suppress(ConnectionError):
                plug.sendall(request("/v1/exec", b" " * (size - 1), BEARER, length=size))
        refused, _, _ = select.select(plugs, [], [], PATIENCE_S)  # the one that was over it, whichever was read last
        codes.append(answer_of(read_to_the_end(refused[0]))[1].get("code"))
        with connect(server.port) as plug:
            plug.sendall(request("/v1/exec", b" " * size, OTHER_BEARER, "Connection: close"))
            codes.append(answer_of(read_to_the_end(plug))[1].get("code"))
    tally.add("long bodies of one tenant", tried=13, disturbed=codes[1] != "invalid_request")
    assert codes == ["overloaded", "invalid_request"]  # which is: it came in as a whole, and is no JSON


def test_no_request_is_sent_elsewhere(server: Service, tally: Tally) -> None:
    """A slash too many is a path that is not there: a key would follow where an answer leads to."""
    paths = ["/v1/sessions/", "/v1/exec/", "/v1/sessions/default/", "/metrics/"]
    told = [asked(server, BEARER, path=path) for path in paths]
    tally.add("paths with a slash too many", tried=len(paths))
    assert {(status, body["code"]) for status, body in told} == {(404, "not_found")}


def test_answers_that_nobody_takes_in_are_bounded(tmp_path: Path, tally: Tally) -> None:
    """A client may ask for a long answer again and again, and read none: beyond some it is told to read first."""
    source = "for (let i = 0; i < 40; i++) image('data:image/png;base64,' + 'A'.repeat(1024 * 1024))"
    with keyed(tmp_path) as server, contextlib.ExitStack() as stack:
        server.client.headers["Authorization"] = f"Bearer {KEY}"
        assert server.exec(source, yield_time_ms=10_000)["status"] == "completed"
        refused = 0
        for _ in range(14):
            plug = stack.enter_context(connect(server.port, buffer=4096))
            plug.sendall(request("/v1/wait", {"cell_id": "1", "after": 0}, BEARER))
            refused += plug.recv(100).startswith(b"HTTP/1.1 503")
        others = asked(server, OTHER_BEARER)[0]
        grown = resident_kib(server.pid) // 1024
        stack.close()
        until_found(lambda: asked(server, BEARER)[0] == 200, "it is answered again")
        server.client.headers["Authorization"] = f"Bearer {OTHER}"
    tally.add("answers of 80 MB that nobody reads", tried=14, disturbed=others != 200)
    print(f"\n  14 answers of 80 MB that nobody reads: {refused} were refused, the service had {grown} MiB")
    assert (refused >= 3, others) == (True, 200)
