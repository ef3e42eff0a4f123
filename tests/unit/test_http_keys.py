"""Keys and tenants over HTTP: who gets in, who sees what, and that a change of the file counts without a restart."""

from __future__ import annotations

import hashlib
import http.client
import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from codemode.client import AsyncCodeModeClient, CodeModeClient
from codemode.commands.cli import _first_steps
from codemode.commands.serving import check_host
from codemode.errors import InvalidRequest, Unauthorized
from codemode.keys.key import digest_of, hashed_line
from tests.faults.rig import Service, raw_request, service, texts
from tests.faults.server import until
from tests.unit.cli_helpers import codemode

ALPHA, BETA, SECOND_ALPHA = "key-of-alpha-0123456789", "key-of-beta-0123456789", "another-key-of-alpha"
PROM = "key-of-prometheus-0123456789"
ASLEEP = "await new Promise((resolve) => setTimeout(resolve, 60_000))"
OPEN = ("/healthz", "/readyz")


def as_line(key: str, name: str) -> str:
    return hashed_line(digest_of(key.encode()), name).decode()


FILE = f"# tenants\n\n{as_line(ALPHA, 'alpha')}\n{as_line(SECOND_ALPHA, 'alpha')}\n{BETA}\n{as_line(PROM, 'prom')} operator\n"


@pytest.fixture(scope="module")
def one_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("server")
    (folder / "keys").write_text(FILE)
    with service(folder, "--key-file", str(folder / "keys"), "--audit-log", str(folder / "audit")) as made:
        made.client.headers["Authorization"] = f"Bearer {ALPHA}"
        yield made


@pytest.fixture
def server(one_server: Service) -> Iterator[Service]:
    """The server, with alpha's key in its client, without a session at the end."""
    yield one_server
    for key in (ALPHA, BETA):
        for session in asked(one_server, "GET", "/v1/sessions", key).json():
            asked(one_server, "DELETE", f"/v1/sessions/{session['session_id']}", key)
    one_server.sessions.clear()


def asked(server: Service, method: str, path: str, key: str | None = None, body: Any = None) -> httpx.Response:
    """The answer to a request with this key."""
    headers = {"Authorization": "" if key is None else f"Bearer {key}"}
    content = None if body is None else json.dumps(body).encode()
    return server.client.request(method, path, headers=headers, content=content)


def operations(server: Service) -> list[tuple[str, str]]:
    """Method and path of all that is in the OpenAPI document, with its {parameters}."""
    document = server.client.get("/openapi.json").json()
    return [(method.upper(), path) for path, methods in document["paths"].items() for method in methods]


def session_of(server: Service, key: str, **body: Any) -> str:
    return str(asked(server, "POST", "/v1/sessions", key, body).json()["session_id"])


def code(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["code"]


# Who gets in


def test_everything_needs_a_key(server: Service) -> None:
    """Each operation there is, and what is no operation; only liveness and readiness are open."""
    places = [(method, re.sub(r"\{\w+\}", "x", path)) for method, path in operations(server)]
    assert len(places) > 10
    places += [
        ("GET", path) for path in ("/openapi.json", "/metrics", "/", "/v1", "/no/such", "/healthz/", "//healthz")
    ]
    for method, path in places:
        response = asked(server, method, path)
        if path in OPEN:
            assert response.status_code == 200
            continue
        assert (code(response), response.headers["content-type"], response.headers["www-authenticate"]) == (
            (401, "unauthorized"),
            "application/problem+json",
            "Bearer",
        ), path


def test_with_a_key_all_of_it_is_there(server: Service) -> None:
    """The document too."""
    statuses = [asked(server, "GET", path, BETA).status_code for path in ("/openapi.json", "/v1/sessions")]
    assert statuses == [200, 200]


def test_numbers_of_all_tenants_are_for_an_operator(server: Service) -> None:
    """Its key is for them alone, and no other key, nor none, gets to see how many sessions others have."""
    session_of(server, ALPHA)
    numbers = asked(server, "GET", "/metrics", PROM)
    assert (numbers.status_code, "codemode_sessions 1.0" in numbers.text) == (200, True)
    assert code(asked(server, "GET", "/metrics", ALPHA)) == (401, "unauthorized")
    places = [(method, re.sub(r"\{\w+\}", "x", path)) for method, path in operations(server)]
    for method, path in places:
        if path not in (*OPEN, "/metrics"):
            assert code(asked(server, method, path, PROM)) == (401, "unauthorized"), path
    for key in (None, ALPHA, PROM):
        told = asked(server, "GET", "/readyz", key).json()
        assert (sorted(told), told["ready"], told["journal"]) == (
            ["journal", "ready", "sandbox"],
            True,
            {"kept_in": "memory"},
        )


@pytest.mark.parametrize(
    "headers",
    [
        [],
        ["Authorization: "],
        ["Authorization: Bearer"],
        ["Authorization: Bearer wrong-key-SECRET"],
        [f"Authorization: Bearer {ALPHA[:-1]}"],
        [f"Authorization: Bearer {ALPHA}x"],
        [f"Authorization: Bearer {ALPHA.upper()}"],
        [f"Authorization: Bearer {hashlib.sha256(ALPHA.encode()).hexdigest()}"],
        [f"Authorization: Bearer {as_line(ALPHA, 'alpha').split()[0]}"],
        [f"Authorization: {ALPHA}"],
        [f"Authorization: Basic {ALPHA}"],
        [f"Authorization: Bearer {ALPHA} {ALPHA}"],
        [f"Authorization: Bearer {ALPHA}", f"Authorization: Bearer {ALPHA}"],
        [f"Authorization: Bearer {ALPHA}", "Authorization: Bearer wrong"],
        ["Authorization: Bearer \xe9\xff\xa0"],
        ["Authorization: Bearer " + "x" * 30_000],
        [f"X-Api-Key: {ALPHA}"],
    ],
    ids=lambda headers: repr(headers)[:60],
)
def test_wrong_ways_to_present_a_key(server: Service, headers: list[str]) -> None:
    """Each is the same refusal; what was presented does not come back."""
    head = "\n".join(["GET /v1/sessions HTTP/1.1", "Host: 127.0.0.1", *headers, "", ""])
    status, answered, body = raw_request(server, head.removesuffix("\n"))
    problem = json.loads(body)
    assert (status, problem["code"], answered["www-authenticate"]) == (401, "unauthorized", "Bearer")
    assert [word for word in (ALPHA, "SECRET", "xxxx", "wrong") if word.encode() in body] == []


@pytest.mark.parametrize("value", [f"bearer {ALPHA}", f"BEARER  {ALPHA}", f" Bearer\t{ALPHA} "])
def test_right_ways_to_present_a_key(server: Service, value: str) -> None:
    """The scheme's case and blanks do not matter."""
    head = f"GET /v1/sessions HTTP/1.1\nHost: 127.0.0.1\nAuthorization: {value}\n"
    assert raw_request(server, head)[0] == 200


def test_no_key_no_reading(server: Service) -> None:
    """The refusal comes though nothing of the body has."""
    for length in ("1000", "99999999999"):
        head = f"POST /v1/exec HTTP/1.1\nHost: 127.0.0.1\nContent-Length: {length}\n"
        assert raw_request(server, head)[0] == 401


def test_pages_of_elsewhere_stay_refused(server: Service) -> None:
    """With a key too: no page has to have one. A name of this machine that is not its own is fine then."""
    page = {"Authorization": f"Bearer {ALPHA}", "Origin": "https://evil.example"}
    proxied = {"Authorization": f"Bearer {ALPHA}", "Host": "codemode.example"}
    assert code(server.client.get("/v1/sessions", headers=page)) == (403, "forbidden_origin")
    assert server.client.get("/v1/sessions", headers=proxied).status_code == 200


def test_where_it_may_listen() -> None:
    """Elsewhere with keys or by --insecure; requests have to name this machine only where being on it is enough."""
    assert [check_host("127.0.0.1", insecure=False, has_keys=keys) for keys in (False, True)] == [True, False]
    assert check_host("0.0.0.0", insecure=False, has_keys=True) is False
    assert check_host("0.0.0.0", insecure=True) is False
    with pytest.raises(InvalidRequest, match="--key-file"):
        check_host("0.0.0.0", insecure=False)


@pytest.mark.parametrize(("content", "said"), [("good-key\nbad key\n", "line 2"), (None, "No such file")])
def test_a_wrong_file_at_the_start(tmp_path: Path, content: str | None, said: str) -> None:
    """Exit status 2, the line, and no key."""
    if content is not None:
        (tmp_path / "keys").write_text(content)
    done = codemode("serve", "--port", "0", "--key-file", str(tmp_path / "keys"))
    assert (done.returncode, done.stdout, said in done.stderr, "bad key" in done.stderr) == (2, "", True, False)


def test_the_line_to_paste_shows_where_the_key_goes() -> None:
    """With keys only."""
    with_key, without = [_first_steps("127.0.0.1", 8000, needs_key=needs) for needs in (True, False)]
    assert with_key == f"{without} -H 'Authorization: Bearer KEY'"


# Who sees what


def test_every_operation_of_a_session_is_blind_to_others(server: Service) -> None:
    """404, word for word as for a session that never was; and the session does not notice."""
    mine = session_of(server, ALPHA, tools=[{"name": "ask"}])
    asked(server, "POST", f"/v1/sessions/{mine}/exec", ALPHA, {"source": "text(await tools.ask({}))"})
    never = "0" * len(mine)
    places = [(method, path) for method, path in operations(server) if "{sid}" in path]
    assert len(places) >= 7
    for method, path in places:
        bodies = []
        for session in (mine, never):
            at = re.sub(r"\{\w+\}", "1", path.replace("{sid}", session))
            response = asked(server, method, at, BETA, {})
            assert code(response) == (404, "session_not_found"), at
            assert sorted(response.headers) == sorted(["content-length", "content-type", "date"])
            bodies.append(response.text.replace(session, "ID"))
        assert bodies[0] == bodies[1]
    seen = asked(server, "POST", f"/v1/sessions/{mine}/wait", ALPHA, {"cell_id": "1", "yield_time_ms": 0}).json()
    assert (seen["status"], len(seen["pending_tool_calls"])) == ("running", 1)


def test_what_a_stranger_may_try_on_a_cell(server: Service) -> None:
    """To wait, to terminate, to answer its calls, to end its session: none of it happens."""
    mine = session_of(server, ALPHA, tools=[{"name": "ask"}])
    asked(server, "POST", f"/v1/sessions/{mine}/exec", ALPHA, {"source": "text(await tools.ask({}))"})
    result = {"cell_id": "1", "runtime_tool_call_id": "call-1", "output": "forged"}
    tries = [
        ("POST", "exec", {"source": "text(1)"}),
        ("POST", "wait", {"cell_id": "1", "yield_time_ms": 0}),
        ("POST", "wait", {"cell_id": "1", "terminate": True}),
        ("POST", "tool_results", {"results": [result]}),
        ("GET", "cells", None),
        ("GET", "cells/1", None),
    ]
    for method, what, body in tries:
        assert code(asked(server, method, f"/v1/sessions/{mine}/{what}", BETA, body)) == (404, "session_not_found")
    assert code(asked(server, "DELETE", f"/v1/sessions/{mine}", BETA)) == (404, "session_not_found")
    results = {"results": [{**result, "output": "mine"}], "cell_id": "1"}
    end = asked(server, "POST", f"/v1/sessions/{mine}/tool_results", ALPHA, results).json()
    assert (end["status"], texts(end), end["cell_id"]) == ("completed", ["mine"], "1")


def test_default_is_one_for_each(server: Service) -> None:
    """Its values, its cells, and its end."""
    for key in (ALPHA, BETA):
        asked(server, "POST", "/v1/exec", key, {"source": f"store('whose', {json.dumps(key)})"})
    seen = [asked(server, "POST", "/v1/exec", key, {"source": "text(load('whose'))"}).json() for key in (ALPHA, BETA)]
    assert [(each["cell_id"], texts(each)) for each in seen] == [("2", [ALPHA]), ("2", [BETA])]
    asked(server, "POST", "/v1/exec", BETA, {"source": ASLEEP, "yield_time_ms": 0})
    assert code(asked(server, "POST", "/v1/wait", ALPHA, {"cell_id": "3"})) == (404, "cell_not_found")
    assert asked(server, "DELETE", "/v1/sessions/default", ALPHA).status_code == 204
    alive = asked(server, "POST", "/v1/wait", BETA, {"cell_id": "3", "yield_time_ms": 0}).json()
    assert alive["status"] == "running"


def test_two_keys_of_one_name_are_one_tenant(server: Service) -> None:
    """So the sessions stay when a key is replaced."""
    mine = session_of(server, ALPHA)
    assert asked(server, "GET", f"/v1/sessions/{mine}", SECOND_ALPHA).status_code == 200


def test_a_client_that_lost_its_ids_finds_them(server: Service) -> None:
    """Its own sessions in the order they were made, and no others."""
    first = session_of(server, ALPHA, metadata={"for": "one"})
    session_of(server, BETA)
    second = session_of(server, ALPHA)
    asked(server, "POST", f"/v1/sessions/{second}/exec", ALPHA, {"source": ASLEEP, "yield_time_ms": 0})
    asked(server, "POST", "/v1/exec", ALPHA, {"source": "text(1)"})
    listed = asked(server, "GET", "/v1/sessions", ALPHA).json()
    created = [
        asked(server, "GET", f"/v1/sessions/{each['session_id']}", ALPHA).json()["created_at"] for each in listed
    ]
    assert listed == [
        {"session_id": first, "created_at": created[0], "metadata": {"for": "one"}, "live_cells": 0},
        {"session_id": second, "created_at": created[1], "metadata": {}, "live_cells": 1},
        {"session_id": "default", "created_at": created[2], "metadata": {}, "live_cells": 0},
    ]


async def test_the_clients(server: Service) -> None:
    """Both send the key, and list sessions; a wrong key is an exception of its own."""
    mine = session_of(server, ALPHA, metadata={"n": 1})
    with CodeModeClient(server.url, api_key=ALPHA) as client:
        (found,) = client.sessions()
        assert (found.session_id, found.metadata, found.live_cells) == (mine, {"n": 1}, 0)
        assert client.session(found.session_id).exec("text(6 * 7)").output == [{"type": "text", "text": "42"}]
    async with AsyncCodeModeClient(server.url, api_key=ALPHA) as asynchronous:
        assert [each.session_id for each in await asynchronous.sessions()] == [mine]
    for key in (None, "wrong"):
        with CodeModeClient(server.url, api_key=key) as client, pytest.raises(Unauthorized):
            client.sessions()
        async with AsyncCodeModeClient(server.url, api_key=key) as asynchronous:
            with pytest.raises(Unauthorized):
                await asynchronous.exec("text(1)")


# A change of the file


def test_a_change_counts_without_a_restart(server: Service) -> None:
    """A key that comes gets in, one that goes is refused; its sessions stay, and a wrong file changes nothing."""
    file = server.log.parent / "keys"
    gamma = "key-of-gamma-0123456789"

    def gets_in(key: str) -> bool:
        return asked(server, "GET", "/v1/sessions", key).status_code == 200

    assert not gets_in(gamma)
    with file.open("a") as stream:
        stream.write(f"{gamma}\n")
    until(lambda: gets_in(gamma), "gamma gets in")
    session = session_of(server, gamma)
    asked(server, "POST", f"/v1/sessions/{session}/exec", gamma, {"source": ASLEEP, "yield_time_ms": 0})

    file.write_text(FILE)
    until(lambda: not gets_in(gamma), "gamma is refused", 3)
    assert gets_in(ALPHA)

    file.write_text(f"{FILE}{gamma}\nno key at all\n")
    until(lambda: "line 8" in server.said, "the log names the line")
    assert [gets_in(key) for key in (ALPHA, BETA, gamma)] == [True, True, False]

    file.write_text(f"{FILE}{gamma}\n")
    server.process.send_signal(signal.SIGHUP)
    until(lambda: gets_in(gamma), "gamma gets in again")
    until(lambda: server.said.endswith("the key file was read: 5 keys of 4 tenants\n"), "it is told")
    (mine,) = asked(server, "GET", "/v1/sessions", gamma).json()
    assert (mine["session_id"], mine["live_cells"], server.process.poll()) == (session, 1, None)
    asked(server, "DELETE", f"/v1/sessions/{session}", gamma)
    file.write_text(FILE)
    until(lambda: not gets_in(gamma), "as before")


def test_a_stream_ends_with_its_key(server: Service) -> None:
    """Before the next event; who follows with another key of the tenant hears of it."""
    file = server.log.parent / "keys"
    mine = session_of(server, ALPHA)
    streams = [
        server.client.stream("GET", f"/v1/sessions/{mine}/events", headers={"Authorization": f"Bearer {key}"})
        for key in (SECOND_ALPHA, ALPHA)
    ]
    with streams[0] as ended, streams[1] as following:
        lines, others = ended.iter_lines(), following.iter_lines()
        assert [seen_in(lines, "session/created"), seen_in(others, "session/created")] == [True, True]
        file.write_text(FILE.replace(as_line(SECOND_ALPHA, "alpha"), ""))
        until(lambda: asked(server, "GET", "/v1/sessions", SECOND_ALPHA).status_code == 401, "it is refused")
        asked(server, "POST", f"/v1/sessions/{mine}/exec", ALPHA, {"source": "text(1)"})
        assert (seen_in(others, "cell/ended"), seen_in(lines, "cell/")) == (True, False)
    file.write_text(FILE)
    until(lambda: asked(server, "GET", "/v1/sessions", SECOND_ALPHA).status_code == 200, "as before")


def seen_in(lines: Iterator[str], event: str) -> bool:
    """Read a stream up to an event of this type; False if it ends without one."""
    return any(line.startswith(f"event: {event}") for line in lines)


def test_tenants_outlive_the_server(tmp_path: Path) -> None:
    """With a data directory; a session is its tenant's in the next run, too."""
    (tmp_path / "keys").write_text(FILE)
    flags = ("--key-file", str(tmp_path / "keys"), "--data-dir", str(tmp_path / "data"))
    with service(tmp_path, *flags) as server:
        server.client.headers["Authorization"] = f"Bearer {BETA}"
        mine = session_of(server, ALPHA, metadata={"n": 1})
    with service(tmp_path, *flags) as server:
        server.client.headers["Authorization"] = f"Bearer {BETA}"
        (found,) = asked(server, "GET", "/v1/sessions", SECOND_ALPHA).json()
        assert (found["session_id"], found["metadata"]) == (mine, {"n": 1})
        assert code(asked(server, "GET", f"/v1/sessions/{mine}", BETA)) == (404, "session_not_found")


def test_codemode_keys_and_a_running_server(server: Service) -> None:
    """What `add` prints gets in, what `revoke` names does not."""
    file = str(server.log.parent / "keys")
    key = codemode("keys", "add", "delta", "--key-file", file).stdout.strip()
    until(lambda: asked(server, "GET", "/v1/sessions", key).status_code == 200, "delta gets in")
    assert codemode("keys", "revoke", "delta", "--key-file", file).returncode == 0
    until(lambda: asked(server, "GET", "/v1/sessions", key).status_code == 401, "delta is refused")


# The audit


def refusals(server: Service) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (server.log.parent / "audit").read_text().splitlines()]


def test_each_refusal_leaves_a_line(server: Service) -> None:
    """With the tenant where it is known; what goes well leaves none, and nothing of keys and bodies is in it."""
    mine = session_of(server, ALPHA)
    before = len(refusals(server))
    asked(server, "POST", "/v1/exec?token=SECRET", "SECRET-key", {"source": "SECRET"})
    server.client.get("/v1/sessions", headers={"Origin": "https://evil.example", "X-Request-Id": "r-7"})
    asked(server, "GET", f"/v1/sessions/{mine}/cells", BETA)
    asked(server, "POST", "/v1/exec", ALPHA, {"source": "", "yield_time_ms": "SECRET"})
    asked(server, "POST", f"/v1/sessions/{mine}/exec", ALPHA, {"source": "x" * 1_100_000})
    asked(server, "PUT", "/v1/exec", ALPHA)
    asked(server, "GET", "/a%0A%1Bb", ALPHA)
    asked(server, "POST", "/v1/exec", ALPHA, {"source": "text('fine')"})
    until(lambda: len(refusals(server)) >= before + 7, "seven lines")
    told = refusals(server)[before:]
    beta = hashlib.sha256(BETA.encode()).hexdigest()[:16]
    keys = ("method", "path", "status", "code", "tenant", "request_id")
    assert [tuple(each[key] for key in keys) for each in told] == [
        ("POST", "/v1/exec", 401, "unauthorized", "-", "-"),
        ("GET", "/v1/sessions", 403, "forbidden_origin", "alpha", "r-7"),
        ("GET", f"/v1/sessions/{mine}/cells", 404, "session_not_found", beta, "-"),
        ("POST", "/v1/exec", 422, "invalid_request", "alpha", "-"),
        ("POST", f"/v1/sessions/{mine}/exec", 413, "payload_too_large", "alpha", "-"),
        ("PUT", "/v1/exec", 405, "method_not_allowed", "alpha", "-"),
        ("GET", "/a\n\x1bb", 404, "not_found", "alpha", "-"),
    ]
    assert {(each["event"], each["client"]) for each in told} == {("refused", "127.0.0.1")}
    assert "SECRET" not in str(told)


def test_a_flood_of_refusals_is_summed_up(server: Service) -> None:
    """On one connection as fast as it goes: every one is in a line or in a sum."""
    before = len(refusals(server))
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    for _ in range(200):
        connection.request("DELETE", "/v1/exec", headers={"Authorization": f"Bearer {ALPHA}"})
        connection.getresponse().read()
    connection.close()

    def counted() -> int:
        told = refusals(server)[before:]
        lines = [each for each in told if each.get("code") == "method_not_allowed"]
        sums = [int(each["codes"].get("method_not_allowed", 0)) for each in told if each["event"] == "left_out"]
        return len(lines) + sum(sums)

    until(lambda: counted() == 200, "all are accounted for")
    assert len(refusals(server)) - before < 100


def test_without_being_told_where_it_goes_to_standard_error(tmp_path: Path) -> None:
    """Also at a log level above its own; without keys the tenant has no name."""
    with service(tmp_path, "--log-level", "error") as server:
        server.client.get("/no/such")
        until(lambda: "not_found" in server.said, "the line")
        (line,) = server.said.splitlines()
        assert (json.loads(line)["code"], json.loads(line)["tenant"]) == ("not_found", "-")


# Quotas


def test_quotas_of_a_key(tmp_path: Path) -> None:
    """Sessions, live cells and execs are counted for each key; a repeat is no new exec, and a refusal uses up nothing."""
    (tmp_path / "keys").write_text(f"{as_line('a', 'a')}\n{as_line('b', 'b')}\n{as_line('c', 'c')}\n")
    quotas = {"max_sessions_key": 2, "max_cells_key": 2, "execs_per_minute_key": 4}
    limits = [f"--limit={name}={value}" for name, value in quotas.items()]
    with service(tmp_path, "--key-file", str(tmp_path / "keys"), *limits) as server:
        server.client.headers["Authorization"] = "Bearer c"
        first, second = session_of(server, "a"), session_of(server, "a")
        assert code(asked(server, "POST", "/v1/sessions", "a", {})) == (429, "too_many_sessions")
        asleep = {"source": ASLEEP, "yield_time_ms": 0}
        for session in (first, second):
            assert asked(server, "POST", f"/v1/sessions/{session}/exec", "a", asleep).status_code == 202
        full = asked(server, "POST", f"/v1/sessions/{first}/exec", "a", asleep)
        assert (code(full), full.headers["retry-after"]) == ((429, "too_many_cells"), "1")
        asked(server, "POST", f"/v1/sessions/{first}/wait", "a", {"cell_id": "1", "terminate": True})

        def once(session: str, key: str, source: str) -> httpx.Response:
            headers = {"Authorization": "Bearer a", "Idempotency-Key": key}
            return server.client.post(f"/v1/sessions/{session}/exec", headers=headers, json={"source": source})

        assert [once(first, f"k{number}", "text(1)").json()["cell_id"] for number in (1, 2)] == ["2", "3"]
        refused = once(second, "k3", "text(1)")
        assert (code(refused), 1 <= int(refused.headers["retry-after"]) <= 15) == ((429, "too_many_execs"), True)
        assert refused.json()["retry_after_s"] == int(refused.headers["retry-after"])
        again = once(first, "k1", "text(1)")
        assert (again.status_code, again.json()["cell_id"]) == (200, "2")
        cells = asked(server, "GET", f"/v1/sessions/{second}/cells", "a").json()
        assert [cell["cell_id"] for cell in cells] == ["1"]

        mine = session_of(server, "b")
        assert asked(server, "POST", f"/v1/sessions/{mine}/exec", "b", {"source": "text(1)"}).status_code == 200
