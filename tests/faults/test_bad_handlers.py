"""Tools that hang, raise or return what they must not: that call fails, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.bad_tools import RAISED, RETURNED
from tests.faults.rig import Service, service, texts, watched
from tests.faults.tally import Tally

CALL = "try { const r = await tools.%s({}); text('returned ' + JSON.stringify(r).length) } catch (e) { text(e.name) }"


@pytest.fixture(scope="module")
def bad_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with service(
        tmp_path_factory.mktemp("server"), "--tools", "tests.faults.bad_tools:tools", may_complain=True
    ) as made:
        yield made


@pytest.fixture
def server(bad_server: Service) -> Iterator[Service]:
    """A server with tools that do everything wrong. At the end nothing runs, and it serves."""
    yield bad_server
    for session in ["default", *bad_server.sessions]:
        bad_server.client.delete(f"/v1/sessions/{session}")
    bad_server.sessions.clear()
    bad_server.settled()
    bad_server.still_serves()


def fails(server: Service, name: str) -> str:
    end = server.exec(CALL % name + " text('on')", yield_time_ms=10_000)
    assert (end["status"], texts(end)[-1:]) == ("completed", ["on"]), end
    return texts(end)[0]


@pytest.mark.parametrize("name", RAISED)
def test_whatever_a_tool_raises(server: Service, name: str, tally: Tally) -> None:
    """In the event loop or on a thread: a ToolError in the script, which goes on."""
    said = [fails(server, f"raise_{name}{suffix}") for suffix in ("", "_on_a_thread")]
    tally.add("tools that raise what they must not", tried=2, lost=sum(each != "ToolError" for each in said))
    assert said == ["ToolError"] * 2


@pytest.mark.parametrize("name", RETURNED)
def test_whatever_a_tool_returns(server: Service, name: str, tally: Tally) -> None:
    """JSON or a ToolError; the service answers others soon."""
    with watched(server) as seen:
        said = fails(server, f"return_{name}")
    tally.add("tools that return what is no JSON, or too much")
    print(f"\n  {name}: {said}; /healthz answered within {seen.worst_ms} ms")
    assert said == "ToolError" or said.startswith("returned ")
    assert seen.worst_ms < 2000


def test_a_tool_that_recurses(server: Service, tally: Tally) -> None:
    """RecursionError is a failure like others."""
    tally.add("tools that raise what they must not")
    assert fails(server, "recurse") == "ToolError"


@pytest.mark.parametrize("name", ["stubborn", "fail_while_cancelled"])
def test_a_tool_that_resists_being_cancelled(server: Service, name: str, tally: Tally) -> None:
    """The cell ends at once all the same, terminated or by itself, and others are served."""
    ends = [
        server.exec(f"tools.{name}({{}}); text('left')"),
        server.exec(f"await tools.{name}({{}})", yield_time_ms=50),
        server.exec(f"await tools.{name}({{}})", yield_time_ms=50),
    ]
    ends[1] = server.wait(ends[1]["cell_id"], terminate=True)
    tally.add("tools that resist being cancelled", tried=3)
    assert [each["status"] for each in ends] == ["completed", "terminated", "running"]


def test_a_stubborn_tool_does_not_keep_the_service_from_ending(tmp_path: Path, tally: Tally) -> None:
    """It goes on when it is cancelled; the service ends in time, with status 0."""
    with service(tmp_path, "--tools", "tests.faults.bad_tools:tools") as server:
        server.exec("await tools.stubborn({})", yield_time_ms=50)
        server.terminate()
        tally.add("stops with a tool that goes on when it is cancelled")
        assert server.status() == 0


@pytest.mark.parametrize("size", [8, 100])
def test_results_of_the_caller_that_are_too_long(server: Service, size: int, tally: Tally) -> None:
    """A little too long: the script is told. A hundred megabytes: 413, and the call can still be resolved."""
    session = server.session(tools=[{"name": "caller"}])
    server.exec("try { text(await tools.caller({})) } catch (e) { text(e.name) }", session)
    result = {"cell_id": "1", "runtime_tool_call_id": "call-1", "output": "x" * (size * 1024 * 1024)}
    with watched(server) as seen:
        response = server.post("tool_results", session, results=[result], cell_id="1")
    tally.add("results of the caller that are too long")
    if size == 100:
        assert (response.status_code, response.json()["code"]) == (413, "payload_too_large")
        response = server.post("tool_results", session, results=[result | {"output": "short"}], cell_id="1")
    expected = ["ToolError"] if size == 8 else ["short"]
    assert (response.json()["status"], texts(response.json()), seen.worst_ms < 2000) == ("completed", expected, True)


ODD_RESULTS = {
    "NaN": b"NaN",
    "a number beyond all": b"1e999999",
    "a long number": b"1" * 10_000,
    "deep lists": b"[" * 100_000 + b"]" * 100_000,
    "a surrogate": b'"\\ud800"',
    "the same key twice": b'{"a": 1, "a": 2}',
    "__proto__": b'{"__proto__": {"polluted": 1}}',
}


@pytest.mark.parametrize("name", ODD_RESULTS)
def test_odd_results_of_the_caller(server: Service, name: str, tally: Tally) -> None:
    """Taken, refused, or an error in the script; the call can be resolved in the end, and nothing is polluted."""
    session = server.session(tools=[{"name": "caller"}])
    source = "try { text(JSON.stringify(await tools.caller({})).length < 1e5 && ({}).polluted === undefined) }"
    server.exec(source + " catch (e) { text(e.name) }", session)
    body = b'{"results": [{"cell_id": "1", "runtime_tool_call_id": "call-1", "output": %b}], "cell_id": "1"}'
    path = f"/v1/sessions/{session}/tool_results"
    response = server.client.post(path, content=body % ODD_RESULTS[name])
    tally.add("odd results of the caller")
    if response.status_code == 422:
        response = server.client.post(path, content=body % b"1")
    end = response.json()
    assert (end["status"], texts(end) in (["true"], ["ToolError"])) == ("completed", True), json.dumps(end)[:500]


def test_a_long_error_of_a_tool_is_cut(server: Service) -> None:
    """The script gets head and tail; of a hundred megabytes its process would get nothing at all."""
    session = server.session(tools=[{"name": "caller"}])
    source = "try { await tools.caller({}) } catch (e) { text(e.message.slice(0, 5) + e.message.slice(-5)); text(e.message.length) }"
    server.exec(source, session)
    error = "first" + "é" * 3_000_000 + "final"
    result = {"cell_id": "1", "runtime_tool_call_id": "call-1", "error": error}
    end = server.post("tool_results", session, results=[result], cell_id="1").json()
    assert (texts(end)[0], int(texts(end)[1]) < 65_536) == ("firstfinal", True)
