"""Answers that the service has sent and the client never got: a repeat has them all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.faults.damage import Proxy, answer_of, connect, losing_proxy, read_to_the_end, request
from tests.faults.rig import Service, texts, until_found
from tests.faults.tally import Tally

CLOSE = "Connection: close"
# Bytes of an answer that come through: nothing, a part of the status line, of the headers, of the body.
CUTS = [0, 1, 12, 60, 120, 200, 400, 600, 900]


@pytest.fixture
def proxy(server: Service) -> Iterator[Proxy]:
    with losing_proxy(server) as proxy:
        yield proxy


def sent(proxy: Proxy, path: str, body: Any, *headers: str, cut: int | None = None) -> bytes:
    """What a client gets to read."""
    proxy.cut = cut
    with connect(proxy.port) as plug:
        plug.sendall(request(path, body, CLOSE, *headers))
        return read_to_the_end(plug)


def lose(proxy: Proxy, path: str, body: Any, *headers: str, cut: int) -> None:
    """Send a request; its answer is written, and does not arrive."""
    before = proxy.answers_cut
    got = sent(proxy, path, body, *headers, cut=cut)
    assert len(got) == cut
    assert proxy.answers_cut == before + 1


@pytest.mark.parametrize("ends", [True, False], ids=["ended", "running"])
def test_a_lost_answer_of_an_exec(server: Service, proxy: Proxy, ends: bool, tally: Tally) -> None:
    """With an idempotency key: the repeat has the same cell and all of its output, and the script ran once."""
    session = server.session()
    path = f"/v1/sessions/{session}/exec"
    rest = "" if ends else "yield_control(); await new Promise((resolve) => setTimeout(resolve, 600_000))"
    lost = 0
    for number, cut in enumerate(CUTS):
        body = {"source": f"text('first {number}'); notify('n'); text('x'.repeat(500)); {rest}"}
        lose(proxy, path, body, f"Idempotency-Key: {number}", cut=cut)
        status, again = answer_of(sent(proxy, path, body, f"Idempotency-Key: {number}"))
        expected = (200 if ends else 202, str(number + 1), [f"first {number}", "x" * 500], 1)
        lost += (status, again["cell_id"], texts(again), len(again["notifications"])) != expected
    cells = len(server.client.get(f"/v1/sessions/{session}/cells").json())
    state = "an ended" if ends else "a running"
    tally.add(f"answer of an exec of {state} script lost on the wire", tried=len(CUTS), lost=lost)
    assert (lost, cells) == (0, len(CUTS))


def test_a_lost_answer_of_a_wait(server: Service, proxy: Proxy, tally: Tally) -> None:
    """With `after`: the repeat has everything since that cursor, and the next one what came behind it."""
    session = server.session(tools=[{"name": "caller"}])
    path = f"/v1/sessions/{session}/wait"
    source = (
        f"for (let i = 0; i < {len(CUTS)}; i++) {{ text('x' + i); text('y'.repeat(500)); await tools.caller({{}}) }}"
    )
    lost = 0
    server.exec(source, session)
    cursor = 0
    for number, cut in enumerate(CUTS):
        body = {"cell_id": "1", "after": cursor}
        lose(proxy, path, body, cut=cut)
        _, again = answer_of(sent(proxy, path, body))
        lost += texts(again) != [f"x{number}", "y" * 500] or len(again["pending_tool_calls"]) != 1
        cursor = again["cursor"]
        result = {"cell_id": "1", "runtime_tool_call_id": f"call-{number + 1}", "output": 1}
        server.post("tool_results", session, results=[result])
    end = server.wait("1", session, after=cursor)
    tally.add("answer of a wait lost on the wire", tried=len(CUTS), lost=lost)
    assert (lost, end["status"], texts(end)) == (0, "completed", [])


def test_a_lost_end(server: Service, proxy: Proxy, tally: Tally) -> None:
    """The wait that told of the end, with its error: it is told again, also without `after`."""
    session = server.session()
    path = f"/v1/sessions/{session}/wait"
    lost = 0
    for number, cut in enumerate(CUTS):
        cell = server.exec("text('first'); yield_control(); text('second'); throw new TypeError('mine')", session)
        body = {"cell_id": cell["cell_id"], "after": 1}
        place = f"/v1/sessions/{session}/cells/{cell['cell_id']}"
        until_found(lambda place=place: server.client.get(place).json()["status"] == "failed", "the end")
        lose(proxy, path, body, cut=cut)
        _, again = answer_of(sent(proxy, path, body if number % 2 else {"cell_id": cell["cell_id"]}))
        whole = texts(server.wait(cell["cell_id"], session, after=0))
        lost += (again["status"], again["error"]["message"], whole) != ("failed", "mine", ["first", "second"])
    tally.add("answer with the end of a cell lost on the wire", tried=len(CUTS), lost=lost)
    assert lost == 0


def test_a_lost_answer_of_tool_results(server: Service, proxy: Proxy, tally: Tally) -> None:
    """The repeat is told that the result was taken, and a wait with `after` has what it led to."""
    session = server.session(tools=[{"name": "caller"}])
    path = f"/v1/sessions/{session}/tool_results"
    lost = 0
    for number, cut in enumerate(CUTS):
        first = server.exec("text('a'); text(await tools.caller({})); text('y'.repeat(500))", session)
        result = {"cell_id": first["cell_id"], "runtime_tool_call_id": "call-1", "output": f"result {number}"}
        body = {"results": [result], "cell_id": first["cell_id"]}
        lose(proxy, path, body, cut=cut)
        status, again = answer_of(sent(proxy, path, body))
        end = server.wait(first["cell_id"], session, after=first["cursor"])
        told = (status, again["code"], end["status"], texts(end))
        lost += told != (409, "tool_call_already_resolved", "completed", [f"result {number}", "y" * 500])
    tally.add("answer of tool_results lost on the wire", tried=len(CUTS), lost=lost)
    assert lost == 0
