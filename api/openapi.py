"""What the OpenAPI document says beyond what FastAPI sees: bodies that we read ourselves, and problems."""

from __future__ import annotations

from typing import Any, Final, Literal

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from codemode.cells.observation import Observation

from .auth import OPEN_PATHS
from .problems import MEDIA_TYPE, STATUS, Problem
from .schemas import (
    DecisionRequest,
    ExecRequest,
    SessionRequest,
    ToolCallRequest,
    ToolResultsRequest,
    TurnEndRequest,
    UserShellRequest,
    WaitRequest,
)
from .views import Accepted

_BODIES: Final[list[tuple[type[BaseModel], Literal["validation", "serialization"]]]] = [
    (SessionRequest, "validation"),
    (ExecRequest, "validation"),
    (WaitRequest, "validation"),
    (ToolResultsRequest, "validation"),
    (ToolCallRequest, "validation"),
    (TurnEndRequest, "validation"),
    (DecisionRequest, "validation"),
    (UserShellRequest, "validation"),
    (Problem, "serialization"),
]
_REF: Final = "#/components/schemas/{model}"
_NO_KEY: Final = "`unauthorized`: of a service that has keys"
_RETRY: Final = {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer"}}}
_HEADERS: Final[dict[int, dict[str, Any]]] = {
    401: {"headers": {"WWW-Authenticate": {"description": "How to send a key.", "schema": {"const": "Bearer"}}}},
    429: {"headers": _RETRY},
    503: {"headers": _RETRY},
}

# Of each operation on a session: `default` is made on first use.
SESSION_CODES: Final = ("invalid_request", "session_not_found", "too_many_sessions", "shutting_down")

OBSERVED: Final[dict[int | str, dict[str, Any]]] = {
    200: {"model": Observation, "description": "The cell has ended; a failed script is an answer too."},
    202: {
        "model": Observation,
        "description": "The cell runs on.",
        "headers": {"Location": {"description": "Where the cell is.", "schema": {"type": "string"}}},
    },
}

RESULTS_ANSWERED: Final[dict[int | str, dict[str, Any]]] = OBSERVED | {
    200: {"model": Observation | Accepted, "description": "The cell has ended; or, without a `cell_id`, a number."}
}


def problems(*codes: str) -> dict[int | str, dict[str, Any]]:
    """The `responses` of an operation that refuses with these codes."""
    by_status: dict[int, list[str]] = {}
    for code in dict.fromkeys(codes):
        by_status.setdefault(STATUS[code], []).append(code)
    return {
        status: {
            "description": ", ".join(f"`{code}`" for code in named),
            **_HEADERS.get(status, {}),
            "content": {MEDIA_TYPE: {"schema": {"$ref": _REF.format(model=Problem.__name__)}}},
        }
        for status, named in by_status.items()
    }


def body_of(model: type[BaseModel], *, required: bool = True) -> dict[str, Any]:
    """The `openapi_extra` of an operation that takes this body."""
    schema = {"$ref": _REF.format(model=model.__name__)}
    return {"requestBody": {"required": required, "content": {"application/json": {"schema": schema}}}}


_WHOLE: Final = {"type": "integer", "minimum": 0, "maximum": 2**53 - 1}
_TEXT: Final = {"type": "string", "maxLength": 512}
_EXEC_QUERY: Final = {
    "yield_time_ms": _WHOLE,
    "max_output_tokens": _WHOLE,
    "tool_call_id": _TEXT,
    "turn_id": _TEXT,
}


def exec_body() -> dict[str, Any]:
    """That of exec, which also takes the bare source, and a header."""
    body = body_of(ExecRequest)
    body["requestBody"]["content"]["text/javascript"] = {
        "schema": {"type": "string", "description": "The source; the other fields are query parameters then."},
        "example": "text('hello')",
    }
    body["parameters"] = [
        {
            "name": "Idempotency-Key",
            "in": "header",
            "required": False,
            "description": (
                "The script runs once, however often the request is repeated with the same key, for as long as its "
                "cell is known: `keep_ms` after its end, or less when `max_kept_bytes` or `max_journal_mb` push it "
                "out. After that it would run again. 422 `invalid_request` if the key was used for another source."
            ),
            "schema": {"type": "string", "minLength": 1, "maxLength": 256},
        },
        *(
            {
                "name": name,
                "in": "query",
                "required": False,
                "description": "With the bare source only; in JSON it is a field of the body.",
                "schema": schema,
            }
            for name, schema in _EXEC_QUERY.items()
        ),
    ]
    return body


def install(app: FastAPI) -> None:
    """Make the document of this application complete."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            made = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
            schemas = made.setdefault("components", {}).setdefault("schemas", {})
            _, bodies = models_json_schema(_BODIES, ref_template=_REF)
            schemas.update(bodies.get("$defs", {}))
            made["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
            made["security"] = [{"key": []}, {}]  # a key, or none where the service has no keys
            for path, operations in made["paths"].items():
                for operation in operations.values():
                    if path in OPEN_PATHS:
                        operation["security"] = []
                    else:
                        operation["responses"]["401"] = {**problems("unauthorized")[401], "description": _NO_KEY}
            schemas[Observation.__name__]["required"] = list(schemas[Observation.__name__]["properties"])  # in answers
            for name in ("HTTPValidationError", "ValidationError"):  # FastAPI's own, which is never sent
                schemas.pop(name, None)
            _drop_validation_errors(made)
            app.openapi_schema = made
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]


def _drop_validation_errors(made: dict[str, Any]) -> None:
    for path in made["paths"].values():
        for operation in path.values():
            told = operation["responses"].get("422", {}).get("content", {})
            if "HTTPValidationError" in str(told.get("application/json", {})):
                del operation["responses"]["422"]
