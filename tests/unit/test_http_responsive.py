"""While something heavy goes on for one caller, others are answered: /healthz within a tenth of a second."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
from collections.abc import Callable, Iterator

import pytest

from tests.faults.rig import Service, service, texts, watched

GOAL_MS = 100
SLACK = 5  # for machines on which the tests are not alone

MIB = 1024 * 1024
Work = Callable[[Service, str], None]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with service(tmp_path_factory.mktemp("server"), "--tools", "tests.faults.host_tools:tools") as made:
        made.settled()
        yield made


def long_body(server: Service, session: str) -> None:
    """A source of 1 MiB whose JSON escapes every letter."""
    letters = MIB - 20
    body = b'{"source": "// ' + b"\\u0061" * letters + b'\\ntext(1)"}'
    response = server.client.post(f"/v1/sessions/{session}/exec", content=body)
    assert texts(response.json()) == ["1"]


def big_results(server: Service, session: str) -> None:
    """Eight of the largest results of a host tool."""
    source = "for (let i = 0; i < 8; i++) text((await tools.big({size: 8 * 1024 * 1024 - 2})).length)"
    assert texts(server.exec(source, session)) == [str(8 * MIB - 2)] * 8


def big_results_of_the_caller(server: Service, session: str) -> None:
    """Four of them over HTTP."""
    server.exec("for (let i = 0; i < 4; i++) text((await tools.caller({})).length)", session)
    for number in range(1, 5):
        result = {"cell_id": "1", "runtime_tool_call_id": f"call-{number}", "output": "é" * (4 * MIB - 1)}
        body = json.dumps({"results": [result], "cell_id": "1"}, ensure_ascii=False).encode()
        end = server.client.post(f"/v1/sessions/{session}/tool_results", content=body).json()
        assert texts(end) == [str(4 * MIB - 1)], end["error"]


def many_values_as_a_result(server: Service, session: str) -> None:
    """A result of a million small values."""
    server.exec("text((await tools.caller({})).length)", session)
    result = {"cell_id": "1", "runtime_tool_call_id": "call-1", "output": [1] * 1_000_000}
    assert texts(server.post("tool_results", session, results=[result], cell_id="1").json()) == ["1000000"]


def images(server: Service, session: str) -> None:
    """Sixteen megabytes of them in one answer."""
    source = "for (let i = 0; i < 4; i++) image('data:image/png;base64,' + 'A'.repeat(4 * 1024 * 1024))"
    assert len(server.exec(source, session)["output"]) == 4


def one_image(server: Service, session: str) -> None:
    """The same in one."""
    assert len(server.exec("image('data:image/png;base64,' + 'A'.repeat(16 * 1024 * 1024))", session)["output"]) == 1


def much_text(server: Service, session: str) -> None:
    """Forty megabytes, most of which is cut away."""
    end = server.exec("for (let i = 0; i < 400; i++) text('é'.repeat(50_000))", session, max_output_tokens=100_000)
    assert (end["status"], end["truncated"]) == ("completed", True)


def many_lines(server: Service, session: str) -> None:
    """A hundred thousand of them."""
    end = server.exec("for (let i = 0; i < 100_000; i++) text(i)", session, max_output_tokens=100_000)
    assert end["status"] == "completed"


def many_execs(server: Service, session: str) -> None:
    """Two hundred at the same time, from four sessions."""
    sessions = [session, *(server.session() for _ in range(4))]
    ends: list[str] = []

    def run(number: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        with contextlib.closing(connection):
            connection.request(
                "POST", f"/v1/sessions/{sessions[number % 5]}/exec", b'{"source":"text(1)","yield_time_ms":60000}'
            )
            ends.append(json.loads(connection.getresponse().read())["status"])

    threads = [threading.Thread(target=run, args=[number]) for number in range(200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ends == ["completed"] * 200


def blocked_tools(server: Service, session: str) -> None:
    """Sixteen synchronous tools that block their threads for a while."""
    source = "await Promise.all(Array.from({length: 16}, () => tools.blocked({seconds: 0.5}))); text('done')"
    assert texts(server.exec(source, session)) == ["done"]


def many_calls(server: Service, session: str) -> None:
    """Four thousand nested calls, sixty-four at a time."""
    source = (
        "const a = Array.from({length: 4000}, (_, i) => tools.echo({value: i})); text((await Promise.all(a)).length)"
    )
    assert texts(server.exec(source, session)) == ["4000"]


def many_stored_values(server: Service, session: str) -> None:
    """As many as the store takes, merged at the end."""
    source = "let n = 0; try { for (;; n++) store('k' + n, n) } catch {} text(n > 10_000)"
    assert texts(server.exec(source, session)) == ["true"]
    assert texts(server.exec("text(load('k77'))", session)) == ["77"]


def a_large_error(server: Service, session: str) -> None:
    """Whose message makes a search for hints hard."""
    end = server.exec("throw new TypeError('tools.'.repeat(10_000))", session)
    assert end["error"]["name"] == "TypeError"


def a_large_syntax_error(server: Service, session: str) -> None:
    """Behind tens of thousands of blank lines, which a search for hints might go through again and again."""
    end = server.exec("x;" + "\n" * 65_000 + "const x = ;", session)
    assert end["error"]["kind"] == "syntax_error"


def deep_inputs(server: Service, session: str) -> None:
    """Inputs as deep as can be, for a tool with a schema that looks at everything twice."""
    source = (
        "let o = {}; for (let i = 0; i < 14; i++) o = {o}; try { await tools.branching(o) } catch (e) { text(e.name) }"
    )
    assert texts(server.exec(source, session)) == ["ToolError"]


def hostile_patterns(server: Service, session: str) -> None:
    """A pattern that steps back again and again, and a long text for it."""
    source = "try { await tools.pattern({a: 'a'.repeat(60_000) + '!'}) } catch (e) { text(e.name) }"
    assert texts(server.exec(source, session)) == ["ToolError"]


STEP = {"properties": {"o": {"$ref": "#/$defs/n"}}}
BRANCHES = [{**STEP, "required": ["y"]}, {**STEP, "required": ["z"]}]
TOOLS = [
    {"name": "caller"},
    {"name": "branching", "input_schema": {"$defs": {"n": {"anyOf": BRANCHES}}, "$ref": "#/$defs/n"}},
    {"name": "pattern", "input_schema": {"properties": {"a": {"pattern": "(?=(a+)+$)a"}}}},
]
WORK: list[Work] = [
    long_body,
    big_results,
    big_results_of_the_caller,
    many_values_as_a_result,
    images,
    one_image,
    much_text,
    many_lines,
    many_execs,
    blocked_tools,
    many_calls,
    many_stored_values,
    a_large_error,
    a_large_syntax_error,
    deep_inputs,
    hostile_patterns,
]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("work", WORK, ids=lambda work: work.__name__)
def test_others_are_answered_meanwhile(server: Service, work: Work, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever one caller does, the event loop is never held for long; the figure is printed."""
    session = server.session(tools=TOOLS)
    with watched(server) as seen:
        work(server, session)
    server.client.delete(f"/v1/sessions/{session}")
    with capsys.disabled():
        print(f"\n  {work.__name__}: /healthz answered within {seen.worst_ms} ms (of {seen.count})", end="")
    assert seen.worst_ms < SLACK * GOAL_MS
