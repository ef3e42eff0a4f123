"""The OpenAPI document: well formed, complete, and true about what is refused and how."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest

from codemode._bundled import bundled
from codemode.service import CodeMode

bundled("api")
STATUS: dict[str, int] = importlib.import_module("codemode.api.problems").STATUS

OPEN = {"/healthz", "/readyz"}
OF_A_QUERY = {"invalid_request"}  # everything under /v1 may have one that is wrong
OF_A_BODY = OF_A_QUERY | {"payload_too_large"}
OF_A_SESSION = OF_A_QUERY | {"session_not_found", "too_many_sessions", "shutting_down"}  # default is made on first use
OF_EXEC = OF_A_BODY | OF_A_SESSION | {"invalid_source", "too_many_cells", "too_many_execs", "journal_unavailable"}
OF_EVENTS = OF_A_SESSION | {"too_many_followers"}
OF_CALL = OF_A_BODY | OF_A_SESSION
OF_WAIT = OF_A_BODY | OF_A_SESSION | {"cell_not_found", "cell_busy", "journal_unavailable"}

# What each operation may refuse with, besides what is everywhere.
MAY_REFUSE = {
    "post /v1/sessions": OF_A_BODY | {"tool_name_collision", "too_many_sessions", "shutting_down"},
    "get /v1/sessions": OF_A_QUERY,
    "get /v1/sessions/{sid}": OF_A_SESSION,
    "delete /v1/sessions/{sid}": OF_A_SESSION,
    "post /v1/exec": OF_EXEC,
    "post /v1/wait": OF_WAIT,
    "post /v1/sessions/{sid}/exec": OF_EXEC,
    "post /v1/sessions/{sid}/wait": OF_WAIT,
    "post /v1/sessions/{sid}/tool_results": OF_WAIT | {"tool_call_not_found", "tool_call_already_resolved"},
    "get /v1/sessions/{sid}/cells": OF_A_SESSION,
    "get /v1/sessions/{sid}/cells/{cell_id}": OF_A_SESSION | {"cell_not_found", "journal_unavailable"},
    "get /v1/sessions/{sid}/events": OF_EVENTS,
    "get /v1/sessions/{sid}/cells/{cell_id}/events": OF_EVENTS | {"cell_not_found"},
    "get /v1/sessions/{sid}/lifecycle": OF_A_SESSION | {"journal_unavailable"},
    "post /v1/sessions/{sid}/tools/{name}": OF_CALL | {"tool_not_found", "tool_use_id_taken", "answer_dropped"},
    "post /v1/sessions/{sid}/turns/{tid}/end": OF_CALL,
    "get /v1/sessions/{sid}/approvals": OF_A_SESSION,
    "post /v1/sessions/{sid}/approvals/{approval_id}": OF_CALL
    | {"approval_not_found", "approval_already_resolved", "approval_mismatch"},
    "get /v1/sessions/{sid}/processes": OF_A_SESSION,
    "delete /v1/sessions/{sid}/processes/{process_id}": OF_A_SESSION | {"process_not_found"},
    "post /v1/sessions/{sid}/user_shell": OF_CALL | {"exec_not_allowed"},
    "get /v1/sessions/{sid}/user_shell": OF_A_SESSION,
    "get /v1/sessions/{sid}/user_shell/{command_id}": OF_A_SESSION | {"process_not_found"},
    "post /v1/sessions/{sid}/user_shell/{command_id}/cancel": OF_A_SESSION | {"process_not_found"},
    "get /healthz": set(),
    "get /readyz": {"shutting_down", "isolation_unavailable"},
    "get /metrics": set(),
}


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """As the application makes it; nothing has to run for that."""
    app = importlib.import_module("codemode.api.app").create_app(CodeMode())
    made: dict[str, Any] = app.openapi()
    return made


def operations(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        f"{method} {path}": operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if method in ("get", "post", "put", "delete", "patch")
    }


def walk(value: Any) -> Iterator[dict[str, Any]]:
    """Every object in it."""
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from walk(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from walk(inner)


def codes_of(operation: dict[str, Any]) -> dict[str, int]:
    """The codes that an operation names, with the status that it names them at."""
    return {
        code: int(status)
        for status, response in operation["responses"].items()
        if status.isdigit() and int(status) >= 400
        for code in re.findall(r"`(\w+)`", response["description"])
    }


def test_it_has_the_parts_of_an_openapi_document(document: dict[str, Any]) -> None:
    """Version, title, and for every operation a unique id, a summary and at least one good answer."""
    found = operations(document)
    ids = [operation.get("operationId") for operation in found.values()]
    assert document["openapi"].startswith("3.1")
    assert {"title", "version"} <= document["info"].keys()
    assert (None in ids, len(set(ids)), all(operation.get("summary") for operation in found.values())) == (
        False,
        len(ids),
        True,
    )
    assert [
        name for name, operation in found.items() if not any(s.startswith("2") for s in operation["responses"])
    ] == []


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    """Within the document, to what is there; and nothing is defined that nobody refers to."""
    references = {each["$ref"] for each in walk(document) if isinstance(each.get("$ref"), str)}
    missing = []
    for reference in references:
        here: Any = document
        for part in reference.removeprefix("#/").split("/"):
            here = here.get(part, {}) if isinstance(here, dict) else {}
        if not reference.startswith("#/") or not here:
            missing.append(reference)
    unused = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]} - references
    assert (missing, unused) == ([], set())


def test_every_schema_is_a_json_schema(document: dict[str, Any]) -> None:
    """It compiles, its references resolved within the document."""
    for name in document["components"]["schemas"]:
        jsonschema_rs.validator_for({"$ref": f"#/components/schemas/{name}", "components": document["components"]})


def test_path_parameters_are_declared(document: dict[str, Any]) -> None:
    """Each in braces, each required."""
    for name, operation in operations(document).items():
        wanted = set(re.findall(r"\{(\w+)\}", name))
        declared = {
            each["name"] for each in operation.get("parameters", []) if each["in"] == "path" and each["required"]
        }
        assert declared == wanted, name


def test_examples_fit_their_schemas(document: dict[str, Any]) -> None:
    """What somebody copies from the document works."""
    for name, schema in document["components"]["schemas"].items():
        validator = jsonschema_rs.validator_for(
            {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
        )
        for example in schema.get("examples", []):
            validator.validate(example)


def test_all_operations_are_known_here(document: dict[str, Any]) -> None:
    """A new one has to be added to the table above, with what it may refuse."""
    assert operations(document).keys() == MAY_REFUSE.keys()


@pytest.mark.parametrize("name", MAY_REFUSE)
def test_refusals_are_documented(document: dict[str, Any], name: str) -> None:
    """Every code that an operation can answer with stands in it, at its status, and none that it cannot."""
    told = codes_of(operations(document)[name])
    expected = {code: STATUS[code] for code in MAY_REFUSE[name]}
    assert {code: told.get(code) for code in expected} == expected
    assert told.keys() - expected.keys() == ({"unauthorized"} if name.split()[1] not in OPEN else set())


def test_every_code_is_documented_somewhere(document: dict[str, Any]) -> None:
    """Those too that can come from anywhere: in an operation, or in the description of the problem or the document."""
    told = {code for operation in operations(document).values() for code in codes_of(operation)}
    text = str(document["info"]) + str(document["components"]["schemas"]["Problem"])
    left = {code for code in STATUS if code not in told and f"`{code}`" not in text}
    assert left == set()
    assert document["components"]["schemas"]["Problem"]["properties"]["code"]["enum"] == list(STATUS)


def test_what_a_refusal_brings_along_is_documented(document: dict[str, Any]) -> None:
    """Headers that say when to come again and how to send a key, and the fields beside those of every problem."""
    expected = {"401": ["WWW-Authenticate"], "429": ["Retry-After"], "503": ["Retry-After"]}
    for name, operation in operations(document).items():
        refusals = {
            status: list(said.get("headers", ())) for status, said in operation["responses"].items() if status >= "4"
        }
        assert refusals == {status: expected.get(status, []) for status in refusals}, name
    fields = document["components"]["schemas"]["Problem"]["properties"]
    further = fields.keys() - {"type", "title", "status", "detail", "code"}
    assert further == {"model_output", "retry_after_s", "names", "js_name", "allow"}
    assert all("description" in fields[name] for name in further)


def test_each_answer_has_the_type_that_it_is_sent_with(document: dict[str, Any]) -> None:
    """Events are no JSON."""
    types = {
        name: sorted(
            {
                kind
                for status, said in operation["responses"].items()
                if status < "3"
                for kind in said.get("content", ())
            }
        )
        for name, operation in operations(document).items()
    }
    others = {name: kinds for name, kinds in types.items() if kinds != ["application/json"]}
    assert others == {
        "delete /v1/sessions/{sid}": [],
        "delete /v1/sessions/{sid}/processes/{process_id}": [],
        "get /v1/sessions/{sid}/events": ["text/event-stream"],
        "get /v1/sessions/{sid}/cells/{cell_id}/events": ["text/event-stream"],
        "get /metrics": ["text/plain"],
    }


def test_query_parameters_are_documented(document: dict[str, Any]) -> None:
    """Those of a bare source and of events, and there are no others: what is not documented is refused."""
    told = {
        name: [each["name"] for each in operation.get("parameters", []) if each["in"] == "query"]
        for name, operation in operations(document).items()
    }
    of_a_source = ["yield_time_ms", "max_output_tokens", "tool_call_id", "turn_id"]
    assert {name: names for name, names in told.items() if names} == {
        "post /v1/exec": of_a_source,
        "post /v1/sessions/{sid}/exec": of_a_source,
        "get /v1/sessions/{sid}/events": ["after"],
        "get /v1/sessions/{sid}/cells/{cell_id}/events": ["after"],
    }


def test_every_field_of_an_observation_is_there(document: dict[str, Any]) -> None:
    """In every answer: a client need not ask whether it is."""
    observation = document["components"]["schemas"]["Observation"]
    assert sorted(observation["required"]) == sorted(observation["properties"])


def test_what_needs_a_key_is_told(document: dict[str, Any]) -> None:
    """Everything may, but for liveness and readiness."""
    assert (document["security"], document["components"]["securitySchemes"]) == (
        [{"key": []}, {}],
        {"key": {"type": "http", "scheme": "bearer"}},
    )
    told = {name: operation["security"] for name, operation in operations(document).items() if "security" in operation}
    assert told == {"get /healthz": [], "get /readyz": []}


def test_what_tool_results_answers_without_a_cell_is_documented(document: dict[str, Any]) -> None:
    """`{accepted: n}` is an answer too."""
    answer = operations(document)["post /v1/sessions/{sid}/tool_results"]["responses"]["200"]
    assert "Accepted" in str(answer)


def test_how_long_a_key_works_is_told(document: dict[str, Any]) -> None:
    """An exec runs again when its cell is forgotten, so the limits that say when are named; and so is a wrong use."""
    (key,) = (
        each
        for each in operations(document)["post /v1/sessions/{sid}/exec"]["parameters"]
        if each["name"] == "Idempotency-Key"
    )
    for word in ("`keep_ms`", "`max_kept_bytes`", "`max_journal_mb`", "run again", "422 `invalid_request`"):
        assert word in key["description"]
