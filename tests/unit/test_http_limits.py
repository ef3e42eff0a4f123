"""Every limit of the contract at its edge: the limit itself is within, one more is not, and only the one is stopped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.faults.rig import Service, service, texts
from tests.faults.server import until

MOST_CELLS, MOST_SESSIONS = 6, 8
ASLEEP = "await new Promise((resolve) => setTimeout(resolve, 60_000))"


@pytest.fixture(scope="module")
def one_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    flags = ["--limit", f"max_cells_server={MOST_CELLS}", "--limit", f"max_sessions_key={MOST_SESSIONS}"]
    tools = ["--tools", "tests.faults.host_tools:tools"]
    with service(tmp_path_factory.mktemp("server"), *flags, *tools) as made:
        yield made


@pytest.fixture
def server(one_server: Service) -> Iterator[Service]:
    """The server, without a session or cell at the end."""
    yield one_server
    for session in ["default", *one_server.sessions]:
        one_server.client.delete(f"/v1/sessions/{session}")
    one_server.sessions.clear()


def limited(server: Service, tools: Any = None, **limits: int) -> str:
    return server.session(limits=limits, tools=tools)


def kind(observation: dict[str, Any]) -> str | None:
    return observation["error"]["kind"] if observation["error"] else None


def test_source_bytes(server: Service) -> None:
    """Of UTF-8; a longer source is 413, in JSON and bare, and uses up no cell id."""
    session = limited(server, max_source_bytes=100)
    fits = "//" + "é" * 49
    longer = fits + " "
    statuses = [server.post("exec", session, source=source).status_code for source in (longer, fits)]
    bare = server.client.post(
        f"/v1/sessions/{session}/exec", content=longer.encode(), headers={"Content-Type": "text/javascript"}
    )
    assert (statuses, bare.status_code, bare.json()["code"]) == ([413, 200], 413, "payload_too_large")
    for_a_model = "Script error:\nthe source has 101 bytes; at most 100 are accepted"
    assert bare.json()["model_output"] == [{"type": "input_text", "text": for_a_model}]
    assert server.exec("text(1)", session)["cell_id"] == "2"


def test_tool_input_bytes(server: Service) -> None:
    """Of the JSON in UTF-8, also where it has fewer characters; the call rejects and the script goes on."""
    session = limited(server, max_tool_input_bytes=100)
    source = """
        for (const value of ['x'.repeat(88), 'x'.repeat(89), '中'.repeat(29), '中'.repeat(30)]) {
          try { text((await tools.echo({value})).length) }
          catch (e) { text(`${e.name} ${/echo: the input .* 100/.test(e.message)}`) }
        }
    """
    assert texts(server.exec(source, session)) == ["88", "ToolError true", "29", "ToolError true"]


def test_tool_result_bytes(server: Service) -> None:
    """Of the JSON, of host tools and of the caller's alike."""
    session = limited(server, [{"name": "caller"}], max_tool_result_bytes=100)
    source = """
        for (const call of [() => tools.big({size: 98}), () => tools.big({size: 99}), tools.caller, tools.caller]) {
          try { text((await call()).length) } catch (e) { text(e.message) }
        }
    """
    first = server.exec(source, session)
    outputs = ["y" * 98, "y" * 99]
    ends = [
        server.post(
            "tool_results",
            session,
            results=[{"cell_id": "1", "runtime_tool_call_id": call, "output": output}],
            cell_id="1",
        ).json()
        for call, output in zip(["call-3", "call-4"], outputs, strict=True)
    ]
    assert [texts(each) for each in (first, *ends)] == [
        ["98", "big: its result has 101 bytes; at most 100 are accepted"],
        ["98"],
        ["caller: its result has 101 bytes; at most 100 are accepted"],
    ]


def test_store_bytes(server: Service) -> None:
    """Keys and JSON in UTF-8 and 64 bytes for each, over all of a session; one more throws, the old values stay."""
    session = limited(server, max_store_bytes=100 + 2 * 64)
    source = """
        store('a', 'x'.repeat(48)); store('b', '中'.repeat(15));
        try { store('c', 1) } catch (e) { text(e instanceof Error) }
        store('b', undefined); store('c', 1); store('a', 'x'.repeat(95));
        text(load('a').length + load('c'));
    """
    assert texts(server.exec(source, session)) == ["true", "96"]
    later = "try { store('d', 1) } catch (e) { text('full') } store('a', undefined); store('d', 1); text(load('d'))"
    assert texts(server.exec(later, session)) == ["full", "1"]


def test_memory(server: Service) -> None:
    """Buffers count; what is below the limit is there to be used, and the least that may be asked for is enough."""
    small = limited(server, memory_mb=16)
    assert texts(server.exec("text([1, 2, 3].map((x) => x * 2))", small)) == ["[2,4,6]"]
    session = limited(server, memory_mb=64)
    fill = "const kept = []; for (let i = 0; i < %d; i++) kept.push(new Uint8Array(8 << 20).fill(1)); text(kept.length)"
    within, beyond = server.exec(fill % 6, session), server.exec(fill % 30, session)
    assert (texts(within), kind(beyond) in ("out_of_memory", "script_error")) == (["6"], True), (
        within["error"],
        beyond["error"],
    )
    assert kind(beyond) == "out_of_memory" or beyond["error"]["name"] == "RangeError"


def test_cpu(server: Service) -> None:
    """Time that is used, not time that passes."""
    session = limited(server, cpu_ms=300)
    waits = server.exec("await tools.sleep({ms: 600}); text('awake')", session)
    burns = server.exec("for (;;) {}", session)
    assert (texts(waits), kind(burns), 300 <= burns["usage"]["cpu_ms"] < 1000) == (["awake"], "cpu_limit", True)


def test_lifetime(server: Service) -> None:
    """Ends what waits, also while it is waited for."""
    session = limited(server, lifetime_ms=300)
    end = server.exec(ASLEEP, session)
    assert (kind(end), 300 <= end["usage"]["wall_ms"] < 1500) == ("deadline", True)


def test_undelivered_bytes(server: Service) -> None:
    """A script that nobody reads waits; then everything arrives, once and in order."""
    session = limited(server, max_undelivered_bytes=100_000)
    source = "for (let i = 0; i < 60; i++) text(i + ' ' + 'x'.repeat(50_000)); text('end')"
    server.exec(source, session, yield_time_ms=0)
    until(lambda: server.client.get(f"/v1/sessions/{session}/cells/1").json()["usage"]["wall_ms"] > 300, "some time")
    assert server.client.get(f"/v1/sessions/{session}/cells/1").json()["status"] == "running"
    output: list[str] = []
    seen: dict[str, Any] = {"status": "running"}
    while seen["status"] == "running":
        seen = server.wait("1", session, max_tokens=100_000)
    output = texts(server.wait("1", session, after=60, max_tokens=100_000))
    assert (seen["status"], seen["cursor"], output) == ("completed", 61, ["end"])


def test_undelivered_bytes_for_one_who_polls(server: Service) -> None:
    """Waits with a yield time of 0 read too."""
    session = limited(server, max_undelivered_bytes=100_000)
    server.exec("for (let i = 0; i < 60; i++) text('x'.repeat(50_000))", session, yield_time_ms=0)
    until(lambda: server.wait("1", session, yield_time_ms=0)["status"] == "completed", "its end", 5)


def test_output_bytes(server: Service) -> None:
    """In all; an item costs 64 bytes besides its text. What was within is handed over."""
    session = limited(server, max_output_bytes=10_000)
    fits = server.exec("text('x'.repeat(9_936))", session)
    longer = server.exec("text('a'); text('x'.repeat(9_936)); text('b')", session)
    many = server.exec("for (let i = 0; i < 200; i++) text('')|| text('x')", session)
    assert [kind(each) for each in (fits, longer, many)] == [None, "output_limit", "output_limit"]
    assert texts(longer)[:1] == ["a"]


def test_output_tokens(server: Service) -> None:
    """The ceiling of whatever a caller asks for."""
    session = limited(server, max_output_tokens=10)
    for asked in (10, 11, 1000, None):
        answer = server.exec("text('x'.repeat(44))", session, max_output_tokens=asked)
        assert (answer["truncated"], answer["original_token_count"], "1 tokens truncated" in texts(answer)[0]) == (
            True,
            11,
            True,
        )
    assert server.exec("text('x'.repeat(40))", session, max_output_tokens=1000)["truncated"] is False


def test_tool_calls(server: Service) -> None:
    """The limit itself may be made; one more ends the script, and none more is started."""
    session = limited(server, max_tool_calls=3)
    source = "for (let i = 0; i < %d; i++) text(await tools.echo({value: i}))"
    fits, more = server.exec(source % 3, session), server.exec(source % 4, session)
    assert (texts(fits), texts(more), kind(more)) == (["0", "1", "2"], ["0", "1", "2"], "tool_call_limit")
    assert (more["tool_calls"]["completed"], more["safe_to_retry"]) == (3, False)
    none = limited(server, max_tool_calls=0)
    assert (kind(server.exec("await tools.echo({})", none)), texts(server.exec("text(1)", none))) == (
        "tool_call_limit",
        ["1"],
    )


def test_calls_in_flight(server: Service) -> None:
    """So many at once over all cells of a session; the rest in the order in which they were made."""
    session = limited(server, [{"name": "caller"}], max_in_flight=2)
    first = server.exec("await Promise.all([1, 2, 3].map((n) => tools.caller({n})))", session)
    second = server.exec("await Promise.all([4, 5].map((n) => tools.caller({n})))", session, yield_time_ms=100)
    order = [[call["input"]["n"] for call in each["pending_tool_calls"]] for each in (first, second)]
    assert (order, first["tool_calls"]["queued"], second["tool_calls"]["queued"]) == ([[1, 2], []], 1, 2)
    started = [1, 2]
    for cell_id, call, expected in (("1", 1, 3), ("1", 2, 4), ("1", 3, 5)):
        server.post(
            "tool_results", session, results=[{"cell_id": cell_id, "runtime_tool_call_id": f"call-{call}", "output": 0}]
        )
        cells = [server.client.get(f"/v1/sessions/{session}/cells/{each}").json() for each in ("1", "2")]
        begun = [number for cell, numbers in zip(cells, ([1, 2, 3], [4, 5]), strict=True)
                 for number, made in zip(numbers, cell["calls"], strict=True) if made["started_at"]]  # fmt: skip
        started.append(expected)
        assert begun == sorted(started)


def too_many(server: Service, session: str | None = None) -> tuple[int, str, bool]:
    response = server.post("exec", session, source="text(1)")
    return response.status_code, response.json()["code"], int(response.headers.get("retry-after", "0")) > 0


def test_cells_of_a_session(server: Service) -> None:
    """Live ones; a refused exec uses up no id, and an end makes room."""
    session = limited(server, max_cells_session=2)
    for _ in range(2):
        server.exec(ASLEEP, session, yield_time_ms=0)
    assert too_many(server, session) == (429, "too_many_cells", True)
    server.wait("1", session, terminate=True)
    assert server.exec("text(1)", session)["cell_id"] == "3"


def test_cells_of_the_server(server: Service) -> None:
    """Over all sessions; ended ones do not count, and deleting a session makes room."""
    first, second = server.session(), server.session()
    for number in range(MOST_CELLS):
        server.exec(ASLEEP, (first, second)[number % 2], yield_time_ms=0)
    assert [too_many(server, each) for each in (first, second, None)] == [(429, "too_many_cells", True)] * 3
    assert server.client.delete(f"/v1/sessions/{first}").status_code == 204
    ends = [server.exec("text(1)", second)["status"] for _ in range(2 * MOST_CELLS)]
    assert ends == ["completed"] * len(ends)


def test_sessions_of_a_tenant(server: Service) -> None:
    """One more is refused until one is deleted."""
    for _ in range(MOST_SESSIONS):
        server.session()
    refused = server.client.post("/v1/sessions")
    assert (refused.status_code, refused.json()["code"], "retry-after" in refused.headers) == (
        429,
        "too_many_sessions",
        True,
    )
    assert too_many(server) == (429, "too_many_sessions", True)
    server.client.delete(f"/v1/sessions/{server.sessions.pop()}")
    server.session()


def test_idle_time(server: Service) -> None:
    """A cell that nobody waits for is ended; one that somebody waits for is not."""
    session = limited(server, idle_ms=300)
    server.exec(ASLEEP, session, yield_time_ms=0)
    waited_for = server.exec("await tools.sleep({ms: 700}); text('awake')", session)
    until(lambda: server.client.get(f"/v1/sessions/{session}/cells/1").json()["status"] == "failed", "ended", 5)
    end = server.wait("1", session)
    assert (texts(waited_for), kind(end), "nobody waited" in end["error"]["message"]) == (["awake"], "deadline", True)


def test_keep_time(server: Service) -> None:
    """An ended cell is known for so long; then its id is not found and not listed."""
    session = limited(server, keep_ms=300)
    server.exec("text(1)", session)
    assert server.wait("1", session)["status"] == "completed"
    until(lambda: server.post("wait", session, cell_id="1").status_code == 404, "forgotten", 5)
    assert (server.client.get(f"/v1/sessions/{session}/cells").json(), server.exec("text(1)", session)["cell_id"]) == (
        [],
        "2",
    )


def test_a_session_may_not_raise_a_limit(server: Service) -> None:
    """Each is refused by name when it is above the server's."""
    limits = server.client.get("/v1/sessions/default").json()["limits"]
    for name, value in limits.items():
        response = server.client.post("/v1/sessions", json={"limits": {name: value + 1}})
        assert (response.status_code, name in response.json()["detail"]) == (422, True)
