"""Http tools whose server answers with garbage, too much, too slowly or not at all: that call fails, nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.rig import Service, descriptors_of, service, texts, watched
from tests.faults.server import until
from tests.faults.tally import Tally
from tests.faults.tool_servers import BEHAVIOURS, BadServer, bad_server

TIMEOUT_MS = 500


@pytest.fixture(scope="module")
def tools() -> Iterator[BadServer]:
    with bad_server() as server:
        yield server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, tools: BadServer) -> Iterator[Service]:
    with service(tmp_path_factory.mktemp("server"), "--allow-tool-url", tools.url) as made:
        yield made


def session_with(server: Service, tools: BadServer, *names: str) -> str:
    handlers = [
        {
            "name": f"tool_{number}",
            "handler": {"type": "http", "url": f"{tools.url}/{name.replace(' ', '_')}", "timeout_ms": TIMEOUT_MS},
        }
        for number, name in enumerate(names)
    ]
    return server.session(tools=handlers)


CALL = "try { text('got ' + await tools.tool_%d({})) } catch (e) { text(e.name + ' ' + e.message.slice(0, 200)) }"


@pytest.mark.parametrize("name", [*BEHAVIOURS, "silence"])
def test_a_bad_answer_fails_its_call(server: Service, tools: BadServer, name: str, tally: Tally) -> None:
    """With a ToolError that says so, within the time of the tool; others are answered meanwhile."""
    session = session_with(server, tools, name)
    with watched(server) as seen:
        end = server.exec(CALL % 0 + "text('on')", session, yield_time_ms=10_000)
    tally.add("http tools whose server answers badly", disturbed=seen.worst_ms > 2000)
    print(f"\n  {name}: {texts(end)[0]!r}; /healthz answered within {seen.worst_ms} ms")
    assert (end["status"], texts(end)[0].startswith("ToolError"), texts(end)[-1]) == ("completed", True, "on")
    assert end["usage"]["wall_ms"] < 8 * TIMEOUT_MS
    assert seen.worst_ms < 2000
    server.client.delete(f"/v1/sessions/{session}")


def test_all_bad_answers_at_once(server: Service, tools: BadServer, tally: Tally) -> None:
    """Several of each kind in one cell; afterwards no connection is left."""
    server.settled()
    before = descriptors_of(server.pid)
    names = [*BEHAVIOURS, "silence"]
    session = session_with(server, tools, *names)
    calls = f"for (let i = 0; i < {len(names)}; i++) for (let j = 0; j < 4; j++) all.push(tools['tool_' + i]({{}}))"
    source = f"const all = []; {calls}; const ends = await Promise.allSettled(all);"
    with watched(server) as seen:
        end = server.exec(
            source + "text(ends.filter((e) => e.status === 'rejected').length)", session, yield_time_ms=20_000
        )
        server.still_serves()
    tally.add("http tools whose server answers badly", tried=4 * len(names), disturbed=seen.worst_ms > 2000)
    print(f"\n  all at once: /healthz answered within {seen.worst_ms} ms")
    server.client.delete(f"/v1/sessions/{session}")
    assert (end["status"], texts(end)) == ("completed", [str(4 * len(names))])
    session = session_with(server, tools, "text")

    def as_before() -> bool:
        server.exec(CALL % 0, session)  # idle connections are closed when the next call is made
        return descriptors_of(server.pid) <= before + 3

    until(as_before, "descriptors as before")
