"""What one tenant may hold of the connections, what is answered when all are busy, and that refusals there are audited."""

from __future__ import annotations

import contextlib
import importlib
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from codemode._bundled import bundled
from codemode.errors import TooManyFollowers
from tests.faults.damage import answer_of, connect, read_to_the_end, request
from tests.faults.rig import Service, service
from tests.faults.server import until

bundled("api")
Shares = importlib.import_module("codemode.api.shares").Shares

MOST = 16
ASLEEP = "await new Promise((resolve) => setTimeout(resolve, 60_000))"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("server")
    (folder / "keys").write_text("alpha\nbeta\n")
    flags = ["--key-file", str(folder / "keys"), "--audit-log", str(folder / "audit")]
    with service(folder, *flags, "--max-connections", str(MOST), "--request-timeout", "0.3") as made:
        made.client.headers["Authorization"] = "Bearer alpha"
        yield made


def audit(server: Service) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (server.log.parent / "audit").read_text().splitlines()]


def code(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["code"]


def ask(server: Service, method: str, path: str, key: str = "alpha") -> httpx.Response:
    """On a connection of its own."""
    return httpx.request(method, server.url + path, headers={"Authorization": f"Bearer {key}"}, trust_env=False)


BELOW_THE_APPLICATION = {
    "malformed_request": (400, b"hello there\r\n\r\n"),
    "headers_too_large": (431, b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n"),
    "request_timeout": (408, b"POST /v1/exec HTTP/1.1\r\nHost: "),
}


@pytest.mark.parametrize("refusal", BELOW_THE_APPLICATION)
def test_what_is_refused_before_there_is_a_request_leaves_a_line(server: Service, refusal: str) -> None:
    """The address is known, and nothing else."""
    status, sent = BELOW_THE_APPLICATION[refusal]
    before = len(audit(server))
    with connect(server.port) as plug:
        plug.sendall(sent)
        assert answer_of(read_to_the_end(plug))[0] == status
    until(lambda: len(audit(server)) > before, "a line")
    (line,) = audit(server)[before:]
    assert line == {
        "time": line["time"],
        "event": "refused",
        "client": "127.0.0.1",
        "method": "-",
        "path": "-",
        "status": status,
        "code": refusal,
        "tenant": "-",
        "request_id": "-",
    }


def held(server: Service, key: str, session: str, count: int, body: Any) -> list[socket.socket]:
    """So many connections on which one exec is waited for."""
    plugs = []
    for _ in range(count):
        plugs.append(connect(server.port))
        headers = (f"Authorization: Bearer {key}", "Idempotency-Key: same")
        plugs[-1].sendall(request(f"/v1/sessions/{session}/exec", body, *headers))
    return plugs


def test_one_tenant_cannot_shut_out_the_others(server: Service) -> None:
    """A quarter of the connections for its event streams, half of them in all; then others have theirs, and at the very
    end, when together they have all, probes are answered still."""
    sessions = [
        str(ask(server, "POST", "/v1/sessions", key).json()["session_id"]) for key in ("alpha", "alpha", "beta")
    ]
    server.client.close()
    body = {"source": ASLEEP, "yield_time_ms": 60_000}
    with contextlib.ExitStack() as stack:
        for number in range(MOST // 4):
            plug = stack.enter_context(connect(server.port))
            follow = request(
                f"/v1/sessions/{sessions[number % 2]}/events", None, "Authorization: Bearer alpha", method="GET"
            )
            plug.sendall(follow)
            assert plug.recv(12).endswith(b"200")
        assert code(ask(server, "GET", f"/v1/sessions/{sessions[1]}/events")) == (429, "too_many_followers")

        for plug in held(server, "alpha", sessions[0], MOST // 4, body):
            stack.enter_context(plug)
        until(lambda: ask(server, "GET", "/v1/sessions").status_code == 503, "alpha has half of them")
        refused = ask(server, "GET", "/v1/sessions")
        assert (code(refused), refused.headers["retry-after"]) == ((503, "overloaded"), "1")
        assert ask(server, "GET", "/v1/sessions", "beta").status_code == 200

        for plug in held(server, "beta", sessions[2], MOST // 2, body):
            stack.enter_context(plug)
        until(lambda: "all of the" in ask(server, "GET", "/v1/sessions", "beta").text, "all are busy")
        for _ in range(30):  # that ask nothing, or what is refused
            stack.enter_context(connect(server.port))
            assert ask(server, "GET", "/healthz").status_code == 200
            assert code(ask(server, "POST", "/v1/exec", "beta")) == (503, "overloaded")
        assert [ask(server, "GET", path).status_code for path in ("/readyz", "/readyz?x=1")] == [200, 200]
    until(lambda: ask(server, "DELETE", f"/v1/sessions/{sessions[0]}").status_code == 204, "room again")
    assert ask(server, "DELETE", f"/v1/sessions/{sessions[2]}", "beta").status_code == 204
    told = [
        (each["tenant"], each["path"], each["client"]) for each in audit(server) if each.get("code") == "overloaded"
    ]
    assert {("-", "-", "127.0.0.1")} < set(told)
    server.client = httpx.Client(base_url=server.url, headers={"Authorization": "Bearer alpha"}, trust_env=False)


def test_a_stream_that_ends_gives_its_place_back() -> None:
    """However it ends; and one tenant's say nothing about another's."""
    shares = Shares(8, 256)
    assert (shares.most_requests, shares.most_followers) == (4, 2)
    with shares.following("a"), shares.following("a"):
        with pytest.raises(TooManyFollowers, match="has 2 event streams open"), shares.following("a"):
            pass
        with pytest.raises(ZeroDivisionError), shares.following("b"):
            raise ZeroDivisionError
    with shares.following("a"):
        assert (shares._followers, shares._requests) == ({"a": 1}, {})
    assert shares._followers == {}


def test_without_a_number_of_connections_the_limit_counts() -> None:
    """As in a program that makes the application itself."""
    shares = Shares(None, 3)
    assert (shares.most_requests, shares.most_followers, shares.has_room("a")) == (None, 3, True)


def test_the_limit_over_http(tmp_path: Path) -> None:
    """Over all sessions; without keys everybody is one tenant."""
    with service(tmp_path, "--limit", "max_followers_key=1") as server, contextlib.ExitStack() as stack:
        for session, status in ((server.session(), 200), (server.session(), 429)):
            path = f"/v1/sessions/{session}/events"
            assert stack.enter_context(server.client.stream("GET", path)).status_code == status
