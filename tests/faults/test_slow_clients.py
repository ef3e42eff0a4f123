"""Clients that send too slowly, too much or no HTTP at all, or do not read: they are ended, others are served."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.faults.damage import answer_of, connect, is_waited_for, read_to_the_end, request, resident_kib
from tests.faults.rig import Service, descriptors_of, service, texts, until_found
from tests.faults.server import until
from tests.faults.tally import Tally

PATIENCE = 1.0  # seconds
CONNECTIONS = 150
HUNDREDS = 400
HEAD = b"POST /v1/exec HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
ASLEEP = "text('here'); await new Promise((resolve) => setTimeout(resolve, 600_000))"


@pytest.fixture(scope="module")
def strict_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    flags = ["--request-timeout", str(PATIENCE), "--max-connections", str(CONNECTIONS)]
    tools = ["--tools", "tests.faults.host_tools:tools"]
    with service(tmp_path_factory.mktemp("server"), *flags, *tools) as made:
        yield made


@pytest.fixture
def server(strict_server: Service) -> Iterator[Service]:
    """A server with little patience. At the end it has as many descriptors as before, and serves."""
    strict_server.settled()
    before = descriptors_of(strict_server.pid)
    yield strict_server
    for session in strict_server.sessions:
        strict_server.client.delete(f"/v1/sessions/{session}")
    strict_server.sessions.clear()
    strict_server.settled()
    until(lambda: descriptors_of(strict_server.pid) <= before + 1, "descriptors as before")
    strict_server.still_serves()


def trickle(plugs: list[socket.socket], whole: bytes, every: float, seconds: float) -> list[bytes]:
    """Send `whole` to all of them, a byte at a time, until they are closed or the time is up; what each was told."""
    told: dict[socket.socket, bytes] = dict.fromkeys(plugs, b"")
    deadline = time.monotonic() + seconds
    at = 0
    with selectors.DefaultSelector() as selector:
        for plug in plugs:
            selector.register(plug, selectors.EVENT_READ)
        while selector.get_map() and time.monotonic() < deadline:
            for key in list(selector.get_map().values()):
                assert isinstance(key.fileobj, socket.socket)
                with contextlib.suppress(OSError):  # it was closed
                    key.fileobj.send(whole[at % len(whole) :][:1])
            at += 1
            until_then = time.monotonic() + every
            while (left := until_then - time.monotonic()) > 0 and selector.get_map():
                for key, _ in selector.select(left):
                    assert isinstance(key.fileobj, socket.socket)
                    data = b""
                    with contextlib.suppress(ConnectionError):
                        data = key.fileobj.recv(65536)
                    told[key.fileobj] += data
                    if not data:
                        selector.unregister(key.fileobj)
        assert not selector.get_map(), f"{len(selector.get_map())} of them are still connected"
    return list(told.values())


SLOW = {
    "a head": HEAD + b"X-Slow: " + b"x" * 100_000,
    "blank lines": b"\r\n",
    "a body": HEAD + b'Content-Length: 100000\r\n\r\n{"source": "' + b"x" * 100_000,
    "chunks": HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\n \r\n" * 100_000,
}


@pytest.mark.parametrize("what", SLOW)
def test_hundreds_that_send_a_byte_at_a_time(server: Service, what: str, tally: Tally) -> None:
    """All are ended in time, those that fit with 408; whoever comes meanwhile is served at once."""
    whole = SLOW[what]
    start = whole.index(b"\r\n\r\n") + 4 if what in ("a body", "chunks") else 1
    with ThreadPoolExecutor(1) as pool:
        plugs = [connect(server.port) for _ in range(HUNDREDS if start == 1 else CONNECTIONS - 20)]
        for plug in plugs:
            with contextlib.suppress(ConnectionError):  # closed to make room for another
                plug.sendall(whole[:start])
        slow = pool.submit(trickle, plugs, whole[start:], 0.05, 10)
        slowest = 0.0
        refused = 0
        while not slow.done():
            began = time.monotonic()
            refused += server.post("exec", source="text(1)").status_code != 200
            slowest = max(slowest, time.monotonic() - began)
        told = slow.result()
    for plug in plugs:
        plug.close()
    codes = {answer_of(each)[1].get("code") for each in told}
    tally.add(f"hundreds of clients that send {what} a byte at a time", tried=len(plugs), disturbed=refused)
    print(
        f"\n  {len(plugs)} clients that send {what} slowly: the slowest exec beside them took {slowest * 1000:.0f} ms"
    )
    assert (refused, slowest < 2, codes <= {"request_timeout", None}) == (0, True, True), (slowest, codes)
    assert "request_timeout" in codes


def test_a_body_that_is_announced_and_never_comes(server: Service, tally: Tally) -> None:
    """A problem, 408, and the connection is closed; nothing has run."""
    session = server.session()
    whole = request(f"/v1/sessions/{session}/exec", {"source": "text(1)"}, length=1_000_000)
    with connect(server.port) as plug:
        plug.sendall(whole)
        began = time.monotonic()
        data = read_to_the_end(plug)
        took = time.monotonic() - began
    status, told = answer_of(data)
    cells = server.client.get(f"/v1/sessions/{session}/cells").json()
    tally.add("a body that never comes", disturbed=len(cells))
    assert (status, told["code"], b"application/problem+json" in data, b"connection: close" in data, cells) == (
        408,
        "request_timeout",
        True,
        True,
        [],
    )
    assert PATIENCE * 0.9 < took < PATIENCE * 3


@pytest.mark.timeout(60)
def test_an_honest_client_on_a_slow_link_is_served(server: Service, tally: Tally) -> None:
    """It takes several times the patience, and sends some KiB in each second."""
    source = "text('well') //" + "x" * 16_000
    whole = request("/v1/exec", {"source": source})
    with connect(server.port) as plug:
        began = time.monotonic()
        for at in range(0, len(whole), 800):
            plug.sendall(whole[at : at + 800])
            time.sleep(0.15)
        took = time.monotonic() - began
        data = plug.recv(65536)
    tally.add("a large request over a slow link", lost=not data.startswith(b"HTTP/1.1 200"))
    assert (data.startswith(b"HTTP/1.1 200"), took > 2 * PATIENCE) == (True, True)


def test_chunks_without_an_end(server: Service, tally: Tally) -> None:
    """As fast as can be: refused with 413 when the body is too long, and closed."""
    chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    with connect(server.port) as plug:
        plug.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        told = b""
        sent = 0
        deadline = time.monotonic() + 10
        with contextlib.suppress(ConnectionError):
            while time.monotonic() < deadline:
                plug.sendall(chunk)
                sent += len(chunk)
                plug.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    told += plug.recv(65536)
                plug.settimeout(10)
    tally.add("chunks without an end")
    assert (answer_of(told)[0], time.monotonic() < deadline) == (413, True)


HEADERS = {
    "many headers": HEAD + b"".join(b"X-%d: 1\r\n" % number for number in range(1000)) + b"\r\n",
    "a long header": HEAD + b"X-Long: " + b"x" * 200_000 + b"\r\n\r\n",
    "a long address": b"GET /" + b"x" * 200_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "headers without an end": HEAD + b"X-Many: xxxxxxxxxxxxxxxx\r\n" * 100_000,
    "a header without an end": HEAD + b"X-Long: " + b"x" * 4_000_000,
}


@pytest.mark.parametrize("what", HEADERS)
def test_floods_of_headers(server: Service, what: str, tally: Tally) -> None:
    """431, and the connection is closed."""
    with connect(server.port) as plug:
        with contextlib.suppress(ConnectionError):
            plug.sendall(HEADERS[what])
        data = read_to_the_end(plug)
    tally.add("floods of headers")
    assert answer_of(data)[1].get("code") == "headers_too_large"


def tls_hello() -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).wrap_bio(incoming, outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


GARBAGE: dict[str, Callable[[], bytes]] = {
    "noise": lambda: os.urandom(100_000),
    "zeros": lambda: bytes(10_000),
    "TLS": tls_hello,
    "HTTP/2": lambda: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9),
    "two lengths": lambda: HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "a length and chunks": lambda: HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a bad chunk": lambda: HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    "a negative length": lambda: HEAD + b"Content-Length: -1\r\n\r\n",
    "an address that is none": lambda: b"GET \xff\xfe HTTP/1.1\r\n\r\n",
    "another protocol": lambda: b"SSH-2.0-OpenSSH_9.6\r\n",
    "words": lambda: b"hello there, how are you\r\n\r\n",
}


@pytest.mark.parametrize("what", GARBAGE)
def test_garbage_instead_of_http(server: Service, what: str, tally: Tally) -> None:
    """400 as a problem, and closed; one line of the audit tells of it, which a flood of it would not fill."""
    said = len(server.said)
    with connect(server.port) as plug:
        with contextlib.suppress(ConnectionError):
            plug.sendall(GARBAGE[what]())
        status, told = answer_of(read_to_the_end(plug))
    tally.add("garbage instead of HTTP")
    assert (status, told["code"]) == (400, "malformed_request")
    line = json.loads(until_found(lambda: server.said[said:], "a line"))
    assert (line["event"], line["client"], line["status"]) == ("refused", "127.0.0.1", 400)
    assert (line["code"], line["tenant"], line["request_id"]) == ("malformed_request", "-", "-")


def test_idle_connections_make_room(server: Service, tally: Tally) -> None:
    """Far more of them than there may be: those that are idle longest are closed, and everybody who asks is served."""
    plugs = []
    refused = 0
    for number in range(3 * CONNECTIONS):
        plugs.append(connect(server.port))
        if number % 10 == 0:
            with connect(server.port) as asking:
                asking.sendall(request("/healthz", method="GET"))
                refused += not asking.recv(65536).startswith(b"HTTP/1.1 200")
    open_at_the_end = descriptors_of(server.pid)
    for plug in plugs:
        plug.close()
    tally.add("idle connections, three times as many as may be", tried=len(plugs), disturbed=refused)
    assert (refused, open_at_the_end < CONNECTIONS + 60) == (0, True)


def test_when_all_connections_are_busy_more_are_refused(server: Service, tally: Tally) -> None:
    """With 503, `overloaded` and Retry-After, probes are answered; nobody who waits is disturbed, and afterwards there
    is room."""
    sessions = [server.session() for _ in range(3)]
    for session in sessions:
        server.exec(ASLEEP, session, yield_time_ms=0)
    key = "Idempotency-Key: same"
    body = {"source": ASLEEP, "yield_time_ms": 60_000}
    plugs = []
    for number in range(CONNECTIONS + 20):  # repeats of one exec share its answer, so that few cells make many wait
        plugs.append(connect(server.port))
        with contextlib.suppress(ConnectionError):  # one of those for which there is no room
            plugs[-1].sendall(request(f"/v1/sessions/{sessions[number % 3]}/exec", body, key))

    def refusal() -> bytes | None:
        with connect(server.port) as late:
            late.sendall(request("/v1/sessions", method="GET"))
            data = read_to_the_end(late) if late.recv(12, socket.MSG_PEEK).endswith(b"503") else b""
            return data or None

    server.client.close()
    data = until_found(refusal, "a refusal")
    assert httpx.get(f"{server.url}/healthz", trust_env=False).status_code == 200
    status, told = answer_of(data)
    for plug in plugs[1:]:
        plug.close()
    server.client = httpx.Client(base_url=server.url, timeout=60, trust_env=False)
    until(lambda: server.client.get("/healthz").status_code == 200, "room")
    assert is_waited_for(server, sessions[0], "2")
    server.wait("2", sessions[0], terminate=True)
    _, end = answer_of(b"".join([plugs[0].recv(65536)]))
    plugs[0].close()
    tally.add("connections beyond the limit while all are busy", lost=end["status"] != "terminated")
    assert (status, told["code"], b"retry-after: 1" in data.lower(), end["status"], texts(end)) == (
        503,
        "overloaded",
        True,
        "terminated",
        ["here"],
    )


def test_answers_that_nobody_reads_are_let_go_of(server: Service, tally: Tally) -> None:
    """Thirty clients ask for 10 MB each and read nothing: their connections are closed, the memory is free again."""
    session = server.session()
    source = "for (let i = 0; i < 10; i++) image('data:image/png;base64,' + 'A'.repeat(1024 * 1024))"
    server.exec(source, session)
    before = descriptors_of(server.pid)
    plugs = []
    for _ in range(30):
        plugs.append(plug := connect(server.port, buffer=4096))
        plug.sendall(request(f"/v1/sessions/{session}/wait", {"cell_id": "1", "after": 0}))
        assert plug.recv(100).startswith(b"HTTP/1.1 200")
    held = resident_kib(server.pid)
    until(lambda: descriptors_of(server.pid) <= before + 1, "they are closed")
    until(lambda: resident_kib(server.pid) < held / 2, "the memory is free again")
    for plug in plugs:
        plug.close()
    whole = server.wait("1", session, after=0)
    tally.add("answers of 10 MB that nobody reads", tried=30, lost=len(whole["output"]) != 10)
    print(
        f"\n  30 answers that nobody reads: the service had {held // 1024} MiB, then {resident_kib(server.pid) // 1024}"
    )
    assert len(whole["output"]) == 10


@pytest.mark.timeout(60)
def test_an_answer_that_is_read_slowly_arrives(server: Service, tally: Tally) -> None:
    """In several times the patience."""
    session = server.session()
    server.exec("for (let i = 0; i < 5; i++) image('data:image/png;base64,' + 'A'.repeat(1024 * 1024))", session)
    got = 0
    with connect(server.port, buffer=65536) as plug:
        plug.sendall(request(f"/v1/sessions/{session}/wait", {"cell_id": "1", "after": 0}, "Connection: close"))
        began = time.monotonic()
        while data := plug.recv(1 << 16):
            got += len(data)
            time.sleep(0.013)
        took = time.monotonic() - began
    tally.add("a long answer that is read slowly", lost=got < 5 * 1024 * 1024)
    assert (got > 5 * 1024 * 1024, took > 2 * PATIENCE) == (True, True), (got, took)


def test_bodies_together_are_bounded(server: Service, tmp_path: Path, tally: Tally) -> None:
    """Clients that stop one byte short of a long body cannot fill the memory: more of them are refused."""
    size = 15 * 1024 * 1024
    plugs = []
    codes = set()
    with service(tmp_path) as other:
        before = resident_kib(other.pid)
        for _ in range(24):
            plug = connect(other.port)
            plugs.append(plug)
            with contextlib.suppress(ConnectionError):
                plug.sendall(request("/v1/exec", b" " * (size - 1), length=size))
        plug.setblocking(True)
        codes = {answer_of(read_to_the_end(plugs[-1]))[1].get("code")}
        grown = (resident_kib(other.pid) - before) // 1024
        for plug in plugs:
            plug.close()
    tally.add("long bodies that stop one byte short", tried=24)
    print(f"\n  24 bodies of 15 MiB that stop one byte short: the service has grown by {grown} MiB")
    assert (codes, grown < 700) == ({"overloaded"}, True)


@pytest.mark.parametrize("sent", ["half a head", "half a body"])
def test_a_request_that_is_not_complete_does_not_hold_up_a_stop(tmp_path: Path, sent: str, tally: Tally) -> None:
    """Nothing was asked yet: its connection is closed at once, and nothing is complained of."""
    whole = request("/v1/exec", {"source": "text(1)"})
    with service(tmp_path) as server, connect(server.port) as plug:
        plug.sendall(whole[:30] if sent == "half a head" else whole[:-5])
        server.still_serves()
        began = time.monotonic()
        server.terminate()
        tally.add("SIGTERM of the service with a request that is not complete", lost=server.status() != 0)
        assert (server.status(), time.monotonic() - began < 4) == (0, True)
