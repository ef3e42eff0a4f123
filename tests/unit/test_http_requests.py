"""Requests that are wrong in every way there is, over a real connection: a problem each, and no harm done."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from codemode._bundled import bundled
from tests.faults.rig import Service, raw_request, service, texts
from tests.faults.server import until

bundled("api")

SECRET_PLACES = ("/work", "site-packages", "Traceback", "codemode/", ".py")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    flags = ("--tools", "tests.faults.host_tools:tools", "--audit-log", "off")  # what it says else has to be nothing
    with service(tmp_path_factory.mktemp("server"), *flags) as made:
        yield made


@pytest.fixture(scope="module")
def session(server: Service) -> str:
    """A session that tests send nonsense to."""
    return server.session(tools=[{"name": "caller"}])


def problem_of(status: int, headers: dict[str, str], body: bytes) -> tuple[int, str]:
    """Status and code of a problem, whose form is checked."""
    assert headers["content-type"] == "application/problem+json", (status, headers, body[:300])
    told = json.loads(body)
    assert told["status"] == status
    assert {"type", "title", "status", "detail", "code"} <= told.keys()
    assert not any(place in body.decode() for place in SECRET_PLACES), body[:300]
    return status, told["code"]


def refused(
    server: Service, path: str, body: bytes, content_type: str = "application/json", method: str = "POST"
) -> tuple[int, str]:
    """What becomes of a request that has to be refused."""
    response = server.client.request(method, path, content=body, headers={"Content-Type": content_type})
    return problem_of(response.status_code, dict(response.headers), response.content)


# Bodies


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"{",
        b"}",
        b"null",
        b"[]",
        b"5",
        b'"text(1)"',
        b"true",
        b"text(1)",
        b"{'source': 'text(1)'}",
        b'{"source": "text(1)",}',
        b'{"source": "text(1)"} {}',
        b'{"source": "text(1)"',
        b'\xef\xbb\xbf{"source": "text(1)"}',
        b'{"source": "text(1)", "source": 5}',
        b'{"source": "\xff"}',
        b'{"source": "\\ud800"}',
        b'{"source": "\\udc00\\ud800"}',
        b'{"source": "\\x41"}',
        b'{"source": "a\nb"}',
        '{"source": "text(1)"}'.encode("utf-16"),
        b"[" * 100_000,
        b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
        b'{"source": NaN}',
        b"source=text(1)",
        b"\x00" * 100,
    ],
    ids=lambda body: str(body[:30]),
)
def test_a_body_that_is_no_exec_is_refused(server: Service, session: str, body: bytes) -> None:
    """Malformed JSON, another type, another encoding, lone surrogates, too deep."""
    assert refused(server, f"/v1/sessions/{session}/exec", body) == (422, "invalid_request")


@pytest.mark.parametrize("path", ["", "/{s}/wait", "/{s}/tool_results"])
@pytest.mark.parametrize(
    "body", [b"{", b"[]", b"5", b'"x"', b'{"\xff": 1}', b'{"unknown": 1}', b'{"\\ud800": 1}', b"[" * 50_000]
)
def test_a_body_that_is_no_request_is_refused(server: Service, session: str, path: str, body: bytes) -> None:
    """The same for every other path that takes one."""
    assert refused(server, f"/v1/sessions{path.format(s=session)}", body) == (422, "invalid_request")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("source", 5),
        ("source", None),
        ("source", ["text(1)"]),
        ("yield_time_ms", "0"),
        ("yield_time_ms", -1),
        ("yield_time_ms", 0.5),
        ("yield_time_ms", True),
        ("yield_time_ms", 2**53),
        ("yield_time_ms", 10**40),
        ("yield_time_ms", 1e300),
        ("max_output_tokens", []),
        ("tool_call_id", 5),
        ("tool_call_id", "x" * 513),
        ("turn_id", {}),
        ("turn_id", "x" * 513),
        ("tools", []),
        ("yield_time", 5),
        ("__proto__", {}),
        ("", 1),
        ("x" * 10_000, 1),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_field_of_the_wrong_type_is_named(server: Service, session: str, field: str, value: Any) -> None:
    """In a detail of bounded length; nothing runs."""
    before = len(server.client.get(f"/v1/sessions/{session}/cells").json())
    response = server.client.post(f"/v1/sessions/{session}/exec", json={"source": "text(1)", field: value})
    told = response.json()
    after = len(server.client.get(f"/v1/sessions/{session}/cells").json())
    assert (
        response.status_code,
        told["code"],
        field[:100] in told["detail"],
        len(told["detail"]) <= 500,
        after - before,
    ) == (
        422,
        "invalid_request",
        True,
        True,
        0,
    )


@pytest.mark.parametrize("field", ["yield_time_ms", "max_output_tokens", "tool_call_id", "turn_id"])
def test_null_counts_as_absent(server: Service, session: str, field: str) -> None:
    """For every field that may be left out."""
    assert texts(server.exec("text(1)", session, **{field: None})) == ["1"]


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "invalid_source"),
        (b" \n", "invalid_source"),
        (b"text('\xff')", "invalid_source"),
        (b"text('\xed\xa0\x80')", "invalid_source"),
        (b"\xff\xfet\x00", "invalid_source"),
        (b"// @exec: {\ntext(1)", "invalid_source"),
        (b'// @exec: {"yield_time_ms": 1e999}\ntext(1)', "invalid_source"),
    ],
    ids=str,
)
@pytest.mark.parametrize("content_type", ["text/javascript", "Application/JavaScript; charset=utf-8"])
def test_a_bare_source_that_cannot_run_is_refused(
    server: Service, session: str, content: bytes, code: str, content_type: str
) -> None:
    """Not UTF-8, empty, or with a wrong first line; the model is told as well."""
    response = server.client.post(
        f"/v1/sessions/{session}/exec", content=content, headers={"Content-Type": content_type}
    )
    told = response.json()
    assert (response.status_code, told["code"], told["model_output"][0]["type"]) == (422, code, "input_text")


def test_a_bare_source_with_a_byte_order_mark_runs(server: Service, session: str) -> None:
    """As editors save it."""
    response = server.client.post(
        f"/v1/sessions/{session}/exec", content="\ufefftext('é')".encode(), headers={"Content-Type": "text/javascript"}
    )
    assert texts(response.json()) == ["é"]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("yield_time_ms=x", "yield_time_ms"),
        ("yield_time_ms=-1", "yield_time_ms"),
        ("yield_time_ms=1.5", "yield_time_ms"),
        ("yield_time_ms=", "yield_time_ms"),
        ("yield_time_ms=" + "9" * 30, "yield_time_ms"),
        ("yield_time_ms=" + "0" * 30 + "5000000000000000000000", "yield_time_ms"),
        ("max_output_tokens=null", "max_output_tokens"),
        ("unknown=1", "unknown"),
        ("source=text(2)", "source"),
        ("turn_id=" + "x" * 600, "turn_id"),
    ],
    ids=lambda value: value[:24],
)
def test_a_wrong_query_parameter_is_refused(server: Service, session: str, query: str, said: str) -> None:
    """By name; the source is the body, whatever the query says."""
    response = server.client.post(
        f"/v1/sessions/{session}/exec?{query}", content=b"text(1)", headers={"Content-Type": "text/javascript"}
    )
    assert (response.status_code, response.json().get("code"), said in response.json().get("detail", "")) == (
        422,
        "invalid_request",
        True,
    )


# Length


MOST = 1024 * 1024 + 16 * 1024 * 1024


@pytest.mark.parametrize("path", ["/v1/exec", "/v1/wait", "/v1/sessions", "/v1/sessions/nobody/tool_results"])
def test_a_body_that_says_it_is_too_long_is_refused_unread(server: Service, path: str) -> None:
    """At once, though nothing of it has come."""
    status, headers, body = raw_request(server, f"POST {path} HTTP/1.1\nHost: localhost\nContent-Length: {MOST + 1}\n")
    assert problem_of(status, {k.lower(): v for k, v in headers.items()}, body) == (413, "payload_too_large")


@pytest.mark.parametrize("length", ["99999999999999999999999999", "-1", "abc", "1, 2"])
def test_a_length_that_is_none_is_a_bad_request(server: Service, length: str) -> None:
    """Refused by whoever reads the head."""
    status, _, _ = raw_request(server, f"POST /v1/exec HTTP/1.1\nHost: localhost\nContent-Length: {length}\n")
    assert status in (400, 413)


def test_a_body_in_chunks_is_refused_when_it_gets_too_long(server: Service) -> None:
    """It is not read to its end, which never comes."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=15) as connection:
        connection.sendall(b"POST /v1/exec HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
        sent = 0
        try:
            while sent < 40:
                connection.sendall(chunk)
                sent += 1
        except (BrokenPipeError, ConnectionResetError):
            pass
        answer = connection.recv(100)
    assert (answer.startswith(b"HTTP/1.1 413"), sent < 40 or answer != b"") == (True, True)


def test_a_client_that_goes_away_in_the_middle_of_its_body_is_no_error(server: Service) -> None:
    """Nothing runs and nothing is written to the log."""
    before = server.said
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", server.port), timeout=15) as connection:
            connection.sendall(b"POST /v1/exec HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
    server.still_serves()
    assert server.said == before


# Sessions and their tools


@pytest.mark.parametrize(
    ("tools", "said"),
    [
        ({}, "tools"),
        ([5], "tools.0"),
        ([{}], "tools.0.name"),
        ([{"name": None}], "tools.0.name"),
        ([{"name": "x" * 200}], "200 characters"),
        ([{"name": "a", "kind": "method"}], "tools.0.kind"),
        ([{"name": "a", "kind": "freeform", "input_schema": {}}], "freeform"),
        ([{"name": "a", "input_schema": {"type": "nonsense"}}], "tool a: input_schema"),
        ([{"name": "a", "input_schema": {"$ref": "http://a.example/"}}], "tool a: input_schema"),
        ([{"name": "a", "input_schema": {"$ref": "file:///etc/passwd"}}], "tool a: input_schema"),
        ([{"name": "a", "input_schema": {"pattern": "("}}], "tool a: input_schema"),
        ([{"name": "a", "input_schema": []}], "tools.0.input_schema"),
        ([{"name": "a", "input_schema": "{}"}], "tools.0.input_schema"),
        ([{"name": "a", "handler": {"type": "python"}}], "tools.0.handler"),
        ([{"name": "a", "handler": {"type": "http"}}], "tools.0.handler"),
        ([{"name": "a", "handler": {"type": "http", "url": "http://a.example/"}}], "not allowed"),
        ([{"name": "a", "handler": {"type": "http", "url": "nonsense"}}], "nonsense"),
        ([{"name": "a", "handler": {"type": "http", "url": "http://127.0.0.1/", "timeout_ms": 0}}], "timeout_ms"),
        ([{"name": "a", "unknown": 1}], "tools.0.unknown"),
    ],
    ids=lambda value: str(value)[:44],
)
def test_a_tool_that_cannot_be_is_refused(server: Service, tools: Any, said: str) -> None:
    """No session is made, and the place is named."""
    before = server.client.get("/readyz").json()["sessions"]
    response = server.client.post("/v1/sessions", json={"tools": tools})
    told = response.json()
    assert (response.status_code, told["code"], said in told["detail"]) == (422, "invalid_request", True), told
    assert server.client.get("/readyz").json()["sessions"] == before


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"limits": []}, "limits"),
        ({"limits": {"memory_mb": "64"}}, "limits.memory_mb"),
        ({"limits": {"memory_mb": 64.5}}, "limits.memory_mb"),
        ({"limits": {"memory_mb": 1}}, "memory_mb"),
        ({"limits": {"memory_mb": 10**20}}, "memory_mb"),
        ({"limits": {"max_cells_server": 1}}, "max_cells_server"),
        ({"limits": {"nonsense": 1}}, "nonsense"),
        ({"metadata": []}, "metadata"),
        ({"approval_policy": "always"}, "approval_policy"),
        ({"model_warnings": "yes"}, "model_warnings"),
        ({"lenient_source": 1}, "lenient_source"),
        ({"typescript": "true"}, "typescript"),
        ({"session_id": "mine"}, "session_id"),
    ],
    ids=str,
)
def test_a_session_that_cannot_be_is_refused(server: Service, body: dict[str, Any], said: str) -> None:
    """The field is named."""
    response = server.client.post("/v1/sessions", json=body)
    assert (response.status_code, response.json()["code"], said in response.json()["detail"]) == (
        422,
        "invalid_request",
        True,
    )


@pytest.mark.parametrize(
    "name", ["constructor", "__proto__", "then", "toString", "prototype", "😀", "", "a b", "class", "x" * 128]
)
def test_a_tool_of_any_name_works(server: Service, name: str) -> None:
    """Names of JavaScript's own, without letters or long: it is in `tools`, and is called by its declared name."""
    session = server.session(tools=[{"name": name}])
    made = server.client.get(f"/v1/sessions/{session}").json()["tools"]
    js_name = next(tool["js_name"] for tool in made if tool["name"] == name)
    source = f"text(Object.keys(tools).includes({json.dumps(js_name)})); text(await tools[{json.dumps(js_name)}]({{}}))"
    first = server.exec(source, session)
    assert (texts(first), [call["tool_name"] for call in first["pending_tool_calls"]]) == (["true"], [name])
    result = {"cell_id": "1", "runtime_tool_call_id": "call-1", "output": "well"}
    end = server.post("tool_results", session, results=[result], cell_id="1").json()
    assert (end["status"], texts(end)) == ("completed", ["well"]), end["error"]


# Results


def result(cell_id: str = "1", call: str = "call-1", **told: Any) -> dict[str, Any]:
    return {"cell_id": cell_id, "runtime_tool_call_id": call, **(told or {"output": 1})}


@pytest.mark.parametrize(
    ("results", "status", "code"),
    [
        ([result(call="call-2")], 404, "tool_call_not_found"),
        ([result(call="call-0")], 404, "tool_call_not_found"),
        ([result(call="nonsense")], 404, "tool_call_not_found"),
        ([result(call="x" * 10_000)], 404, "tool_call_not_found"),
        ([result(call="call-" + "9" * 5000)], 404, "tool_call_not_found"),
        ([result(call="call-00000000199999")], 404, "tool_call_not_found"),
        ([result(call="call-000000001" + "0" * 5000)], 404, "tool_call_not_found"),
        ([result("99")], 404, "cell_not_found"),
        ([result(""), result()], 404, "cell_not_found"),
        ([result(), result(call="call-2")], 404, "tool_call_not_found"),
        ([result(output=1, error="x")], 422, "invalid_request"),
        ([{"cell_id": "1", "runtime_tool_call_id": "call-1"}], 422, "invalid_request"),
        ([result(error=5)], 422, "invalid_request"),
        ([{"cell_id": 1, "runtime_tool_call_id": "call-1", "output": 1}], 422, "invalid_request"),
        ([5], 422, "invalid_request"),
        ({}, 422, "invalid_request"),
        ([result()] * 4097, 422, "invalid_request"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_results_that_cannot_be_taken_are_refused_as_a_whole(
    server: Service, results: Any, status: int, code: str
) -> None:
    """The call still waits, and takes its result afterwards."""
    session = server.session(tools=[{"name": "caller"}])
    server.exec("text(await tools.caller({}))", session)
    response = server.post("tool_results", session, results=results)
    assert problem_of(response.status_code, dict(response.headers), response.content) == (status, code)
    end = server.post("tool_results", session, results=[result()], cell_id="1").json()
    assert texts(end) == ["1"]


def test_two_results_for_one_call_in_one_request_are_a_conflict(server: Service) -> None:
    """Neither is taken; a result twice is a 409, also within one request."""
    session = server.session(tools=[{"name": "caller"}])
    server.exec("text(await tools.caller({}))", session)
    response = server.post("tool_results", session, results=[result(output=1), result(output=2)])
    assert (response.status_code, response.json()["code"]) == (409, "tool_call_already_resolved")
    assert texts(server.post("tool_results", session, results=[result(output=3)], cell_id="1").json()) == ["3"]


def test_results_of_another_session_are_not_found(server: Service) -> None:
    """Calls of a cell with the same id elsewhere are not reached."""
    mine, other = (server.session(tools=[{"name": "caller"}]) for _ in range(2))
    server.exec("text(await tools.caller({}))", mine)
    for results in ([result()], []):
        response = server.post("tool_results", other, results=results, cell_id="1")
        assert (response.status_code, response.json()["code"]) == (404, "cell_not_found")
    assert server.client.get(f"/v1/sessions/{mine}/cells/1").json()["calls"][0]["tool_status"]["state"] == "in_flight"


def test_a_result_for_a_call_of_a_host_tool_is_not_found(server: Service) -> None:
    """Only the caller's own tools take results."""
    session = server.session()
    server.exec("await tools.never({})", session, yield_time_ms=100)
    assert server.post("tool_results", session, results=[result()]).json()["code"] == "tool_call_not_found"
    server.wait("1", session, terminate=True)


# Paths and methods


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/", 404, "not_found"),
        ("GET", "/v1", 404, "not_found"),
        ("GET", "/v2/exec", 404, "not_found"),
        ("POST", "/exec", 404, "not_found"),
        ("GET", "/v1/exec", 405, "method_not_allowed"),
        ("PUT", "/v1/exec", 405, "method_not_allowed"),
        ("DELETE", "/v1/sessions", 405, "method_not_allowed"),
        ("POST", "/healthz", 405, "method_not_allowed"),
        ("GET", "/v1/sessions/nobody", 404, "session_not_found"),
        ("DELETE", "/v1/sessions/nobody", 404, "session_not_found"),
        ("GET", "/v1/sessions/nobody/cells", 404, "session_not_found"),
        ("GET", "/v1/sessions/nobody/cells/1", 404, "session_not_found"),
        ("GET", "/v1/sessions/%2e%2e/cells/1", 404, "session_not_found"),
        ("GET", "/v1/sessions/..%2f..%2fetc%2fpasswd", 404, "not_found"),
        ("GET", "/v1/sessions/%00", 404, "session_not_found"),
        ("GET", "/v1/sessions/%ff", 404, "session_not_found"),
        ("GET", "/v1/sessions/default/cells/999", 404, "cell_not_found"),
        ("GET", "/v1/sessions/default/cells/%201", 404, "cell_not_found"),
        ("GET", "/v1/sessions/default/cells/01", 404, "cell_not_found"),
        ("GET", "/v1/sessions/" + "x" * 5000, 404, "session_not_found"),
        ("GET", "/docs", 404, "not_found"),
        ("GET", "/redoc", 404, "not_found"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_not_there(server: Service, method: str, path: str, status: int, code: str) -> None:
    """A problem for every path and method that there is nothing for; ids are never paths, and are shown bounded."""
    response = server.client.request(method, path, follow_redirects=True)
    assert problem_of(response.status_code, dict(response.headers), response.content) == (status, code)
    assert ("allow" in response.headers) == (status == 405)


@pytest.mark.parametrize(
    ("method", "path", "taken"),
    [
        ("PUT", "/v1/sessions", "GET, POST"),
        ("PATCH", "/v1/sessions/default", "DELETE, GET"),
        ("GET", "/v1/sessions/default/exec", "POST"),
        ("HEAD", "/v1/sessions", "GET, POST"),
        ("POST", "/v1/sessions/default/cells/1/events", "GET"),
        ("POST", "/readyz", "GET, HEAD"),
        ("PUT", "/metrics", "GET"),
        ("DELETE", "/openapi.json", "GET, HEAD"),
    ],
)
def test_what_a_path_takes_instead(server: Service, method: str, path: str, taken: str) -> None:
    """In the header for programs, in the detail for people."""
    response = server.client.request(method, path)
    assert (response.status_code, response.headers["allow"]) == (405, taken)
    if method != "HEAD":
        said = response.json()
        assert (said["allow"], said["detail"]) == (
            taken.split(", "),
            f"{method} is not what this path takes; it takes {taken}",
        )


def test_what_is_not_found_says_where_it_may_have_gone(server: Service) -> None:
    """A session that nobody used is forgotten; of cells the text is fixed."""
    session = server.client.get("/v1/sessions/nobody").json()["detail"]
    cell = server.client.get("/v1/sessions/default/cells/999").json()["detail"]
    assert ("session_idle_ms" in session, cell) == (True, "exec cell 999 not found")


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_probes_may_ask_for_the_head_alone(server: Service, path: str) -> None:
    """Some do."""
    head, whole = server.client.head(path), server.client.get(path)
    assert (head.status_code, head.content, whole.status_code) == (200, b"", 200)


@pytest.mark.parametrize(
    ("method", "path", "said"),
    [
        ("GET", "", "limit: there is no such query parameter; there are none here"),
        ("POST", "", "limit: there is no such query parameter; there are none here"),
        ("GET", "/{s}", "limit: there is no such query parameter; there are none here"),
        ("DELETE", "/{s}", "limit: there is no such query parameter; there are none here"),
        ("GET", "/{s}/cells", "limit: there is no such query parameter; there are none here"),
        ("GET", "/{s}/cells/1", "limit: there is no such query parameter; there are none here"),
        ("POST", "/{s}/wait", "limit: there is no such query parameter; there are none here"),
        ("POST", "/{s}/tool_results", "limit: there is no such query parameter; there are none here"),
        ("GET", "/{s}/events", "limit: there is no such query parameter; there are after"),
        ("GET", "/{s}/cells/1/events", "limit: there is no such query parameter; there are after"),
    ],
)
def test_an_unknown_query_parameter_is_refused(
    server: Service, session: str, method: str, path: str, said: str
) -> None:
    """Everywhere, by its name: left out it would make a request another one."""
    response = server.client.request(method, f"/v1/sessions{path.format(s=session)}?limit=5")
    assert problem_of(response.status_code, dict(response.headers), response.content) == (422, "invalid_request")
    assert response.json()["detail"] == said


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("events?aftr=1", "aftr"),
        ("events?after=", "after"),
        ("events?after=1&after=2", "given twice"),
        ("events?after=-1", "after"),
        ("events?%ff=1", "no such query parameter"),
        ("exec?yield_time_ms=5", "bare source"),
        ("exec?", None),
    ],
)
def test_a_query_that_would_be_misread_is_refused(server: Service, session: str, path: str, said: str | None) -> None:
    """A misspelt number of an event would replay everything; with a body in JSON an exec takes no query."""
    method, body = ("POST", {"source": "text(1)"}) if path.startswith("exec") else ("GET", None)
    response = server.client.request(method, f"/v1/sessions/{session}/{path}", json=body)
    assert (response.status_code, (said or "") in response.text) == (200 if said is None else 422, True)


@pytest.mark.parametrize("header", ["Origin: https://evil.example", "Sec-Fetch-Site: cross-site"])
@pytest.mark.parametrize("request_line", ["GET /healthz", "GET /openapi.json", "POST /v1/exec", "OPTIONS /v1/exec"])
def test_a_web_page_of_elsewhere_is_refused(server: Service, header: str, request_line: str) -> None:
    """On every path, with a problem and without a header that would let the page read it."""
    status, headers, body = raw_request(server, f"{request_line} HTTP/1.1\nHost: localhost:{server.port}\n{header}\n")
    found = {name.lower(): value for name, value in headers.items()}
    assert (problem_of(status, found, body), [name for name in found if "access-control" in name]) == (
        (403, "forbidden_origin"),
        [],
    )


@pytest.mark.parametrize("host", ["evil.example", f"localhost.evil.example:{80}", "192.168.0.1"])
def test_a_host_name_that_somebody_pointed_here_is_refused(server: Service, host: str) -> None:
    """As a page does whose name was changed to this machine's address behind the browser's back."""
    status, headers, body = raw_request(server, f"POST /v1/exec HTTP/1.1\nHost: {host}\nContent-Length: 0\n")
    assert problem_of(status, {k.lower(): v for k, v in headers.items()}, body) == (403, "forbidden_origin")


# Clients that hang up


def test_a_wait_whose_client_has_gone_makes_room_at_once(server: Service) -> None:
    """The next wait is taken, and gets the output that came meanwhile."""
    session = server.session()
    server.exec("await tools.sleep({ms: 300}); text('late'); await tools.never({})", session, yield_time_ms=50)
    body = json.dumps({"cell_id": "1", "yield_time_ms": 60_000}).encode()
    head = f"POST /v1/sessions/{session}/wait HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(head.encode() + body)
        until(lambda: server.post("wait", session, cell_id="1", yield_time_ms=0).status_code == 409, "it is waited for")
    until(lambda: server.post("wait", session, cell_id="1", yield_time_ms=0).status_code == 202, "there is room", 1)
    until(
        lambda: server.client.get(f"/v1/sessions/{session}/cells/1").json()["calls"][-1]["tool_name"] == "never",
        "output",
    )
    assert texts(server.wait("1", session, after=0, yield_time_ms=0)) == ["late"]
    server.wait("1", session, terminate=True)


def test_many_clients_that_hang_up_leave_nothing_behind(server: Service) -> None:
    """Execs abandoned in the middle: no observer, no descriptor and no error is left."""
    session = server.session()
    before, said = len(list(server.cells())), server.said
    body = json.dumps({"source": "await tools.sleep({ms: 200})", "yield_time_ms": 60_000}).encode()
    head = f"POST /v1/sessions/{session}/exec HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"

    def abandon() -> None:
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.sendall(head.encode() + body)

    threads = [threading.Thread(target=abandon) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    until(
        lambda: all(
            cell["status"] == "completed" for cell in server.client.get(f"/v1/sessions/{session}/cells").json()
        ),
        "all ended",
    )
    until(lambda: len(list(server.cells())) <= before + 1, "processes as before")
    assert server.said == said
