"""Clients that hang up, in three ways, at every moment of every kind of request.

The cell is free again, and no output is lost.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.faults.damage import connect, is_waited_for, read_to_the_end, request, reset
from tests.faults.rig import Service, descriptors_of, texts
from tests.faults.server import until
from tests.faults.tally import Tally

ASLEEP = "text('here'); await new Promise((resolve) => setTimeout(resolve, 600_000))"
MIB = 1024 * 1024
TEN_MEGABYTES = "for (let i = 0; i < 10; i++) image('data:image/png;base64,' + 'A'.repeat(1024 * 1024))"
LONG = 60_000


def half_close(plug: socket.socket) -> None:
    """Say that nothing more will be sent, and wait for what comes: to the service that is a hang-up too."""
    plug.shutdown(socket.SHUT_WR)
    read_to_the_end(plug)
    plug.close()


WAYS: dict[str, Callable[[socket.socket], None]] = {"FIN": socket.socket.close, "RST": reset, "half-closed": half_close}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@contextmanager
def nothing_kept(server: Service) -> Iterator[None]:
    """Afterwards it has as many descriptors and tasks as before."""

    def tasks() -> int:
        return int(texts(server.exec("text(await tools.tasks({}))"))[0])

    server.settled()
    before = (descriptors_of(server.pid), tasks())
    yield
    for session in server.sessions:
        server.client.delete(f"/v1/sessions/{session}")
    server.settled()
    until(lambda: descriptors_of(server.pid) <= before[0], "descriptors as before")
    until(lambda: tasks() <= before[1], "tasks as before")


def test_a_request_that_does_not_arrive_whole_runs_nothing(server: Service, way: str, tally: Tally) -> None:
    """Cut after any part of its head or body."""
    session = server.session()
    whole = request(f"/v1/sessions/{session}/exec", {"source": "text(1)"})
    head = whole.index(b"\r\n\r\n") + 4
    with nothing_kept(server):
        cuts = [0, 1, 10, 40, head - 2, head, head + 1, len(whole) - 1]
        for cut in cuts:
            plug = connect(server.port)
            plug.sendall(whole[:cut])
            WAYS[way](plug)
        server.still_serves()
        begun = len(server.client.get(f"/v1/sessions/{session}/cells").json())
        tally.add("hang-up before a request is complete", tried=len(cuts), disturbed=begun)
        assert begun == 0


def pending_exec(server: Service, session: str) -> bytes:
    return request(f"/v1/sessions/{session}/exec", {"source": ASLEEP, "yield_time_ms": LONG})


def pending_wait(server: Service, session: str) -> bytes:
    server.exec(ASLEEP, session, yield_time_ms=0)
    return request(f"/v1/sessions/{session}/wait", {"cell_id": "1", "yield_time_ms": LONG})


def pending_tool_results(server: Service, session: str) -> bytes:
    server.exec(f"await tools.caller({{}}); {ASLEEP}", session)
    result = {"cell_id": "1", "runtime_tool_call_id": "call-1", "output": 1}
    body = {"results": [result], "cell_id": "1", "yield_time_ms": LONG}
    return request(f"/v1/sessions/{session}/tool_results", body)


def pending_wait_with_more_behind(server: Service, session: str) -> bytes:
    return pending_wait(server, session) + 3 * request("/healthz", method="GET")


def pending_wait_with_a_part_behind(server: Service, session: str) -> bytes:
    return pending_wait(server, session) + request(f"/v1/sessions/{session}/exec", {"source": "text(2)"})[:-1]


PENDING = [
    pending_exec,
    pending_wait,
    pending_tool_results,
    pending_wait_with_more_behind,
    pending_wait_with_a_part_behind,
]


@pytest.mark.parametrize("pending", PENDING, ids=lambda pending: pending.__name__)
def test_a_hang_up_frees_the_cell(
    server: Service, way: str, pending: Callable[[Service, str], bytes], tally: Tally
) -> None:
    """For the next one who waits, at once; what the script wrote can be had, and the script goes on."""
    with nothing_kept(server):
        session = server.session(tools=[{"name": "caller"}])
        plug = connect(server.port)
        plug.sendall(pending(server, session))
        until(lambda: is_waited_for(server, session, "1"), "it waits")
        WAYS[way](plug)
        until(lambda: not is_waited_for(server, session, "1"), "the place is free", 5)
        seen: dict[str, Any] = {}

        def all_output() -> bool:
            seen.update(server.wait("1", session, after=0, yield_time_ms=1000))
            return bool(seen["output"])

        until(all_output, "output")
        tally.add(
            f"hang-up in a {pending.__name__.replace('_', ' ')}",
            lost=texts(seen) != ["here"],
            disturbed=seen["status"] != "running",
        )
        assert (seen["status"], texts(seen)) == ("running", ["here"])
        assert len(server.client.get(f"/v1/sessions/{session}/cells").json()) == 1


def test_a_hang_up_while_a_long_answer_is_written(server: Service, way: str, tally: Tally) -> None:
    """The answer is let go of, and a wait with `after` has all of it again."""
    with nothing_kept(server):
        session = server.session()
        plug = connect(server.port, buffer=65536)
        plug.sendall(request(f"/v1/sessions/{session}/exec", {"source": TEN_MEGABYTES, "yield_time_ms": LONG}))
        assert plug.recv(1000).startswith(b"HTTP/1.1 200")
        WAYS[way](plug)
        end = server.wait("1", session, after=0)
        lost = 10 - len(end["output"])
        tally.add("hang-up while 10 MB are written", lost=lost)
        assert (end["status"], lost) == ("completed", 0)


def test_many_hang_ups_at_once(server: Service, tally: Tally) -> None:
    """A hundred clients wait for twenty cells one after another, and each of them goes away."""
    session = server.session()
    for _ in range(20):
        server.exec(ASLEEP, session, yield_time_ms=0)
    with nothing_kept(server):
        for turn in range(5):
            plugs = []
            for number in range(1, 21):
                plugs.append(connect(server.port))
                body = {"cell_id": str(number), "yield_time_ms": LONG}
                plugs[-1].sendall(request(f"/v1/sessions/{session}/wait", body))
            for number in range(1, 21):
                until(lambda number=number: is_waited_for(server, session, str(number)), "it waits")  # type: ignore[misc]
            for plug in plugs:
                (reset if turn % 2 else socket.socket.close)(plug)
            for number in range(1, 21):
                until(lambda number=number: not is_waited_for(server, session, str(number)), "free")  # type: ignore[misc]
        outputs = [texts(server.wait(str(number), session, after=0, yield_time_ms=0)) for number in range(1, 21)]
        tally.add("hang-ups of twenty at once in a wait", tried=100, lost=sum(each != ["here"] for each in outputs))
        assert outputs == [["here"]] * 20
