"""Every refusal as an RFC 9457 problem, and the one table that maps a code to its HTTP status."""

from __future__ import annotations

import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import FastAPI, Request, Response
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from codemode.errors import CodeModeError, InvalidRequest

from . import caller
from .exchange import UNTAKEN, ClientGone, Untaken

_log = logging.getLogger("codemode.api")

MEDIA_TYPE: Final = "application/problem+json"
STATUS: Final = {
    "invalid_request": 422,
    "invalid_source": 422,
    "tool_name_collision": 422,
    "unauthorized": 401,
    "forbidden_origin": 403,
    "exec_not_allowed": 403,
    "session_not_found": 404,
    "cell_not_found": 404,
    "tool_not_found": 404,
    "tool_call_not_found": 404,
    "approval_not_found": 404,
    "process_not_found": 404,
    "not_found": 404,
    "method_not_allowed": 405,
    "cell_busy": 409,
    "tool_call_already_resolved": 409,
    "tool_use_id_taken": 409,
    "approval_already_resolved": 409,
    "approval_mismatch": 409,
    "payload_too_large": 413,
    "malformed_request": 400,
    "request_timeout": 408,
    "headers_too_large": 431,
    "too_many_cells": 429,
    "too_many_sessions": 429,
    "too_many_followers": 429,
    "too_many_execs": 429,
    "shutting_down": 503,
    "isolation_unavailable": 503,
    "journal_unavailable": 503,
    "overloaded": 503,
    "answer_dropped": 507,
    "internal_error": 500,
}
_RETRY_AFTER_S: Final = 1
_MOST_DETAIL: Final = 500
_MOST_METHOD: Final = 40


class Problem(BaseModel):
    """The body of every refusal. `code` is stable; further fields may help, and there may be more of them.

    Any operation may answer `forbidden_origin` (403), `overloaded` (503), `internal_error` (500), and what its
    connection is refused with: `malformed_request` (400), `request_timeout` (408), `headers_too_large` (431).
    Where there is no operation it is `not_found` (404) or, with `Allow`, `method_not_allowed` (405).
    """

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str
    code: Annotated[str, Field(json_schema_extra={"enum": list(STATUS)})]
    model_output: Annotated[
        list[dict[str, Any]] | None, Field(description="The problem for a model, where one can cause and mend it.")
    ] = None
    retry_after_s: Annotated[int | None, Field(description="Of `too_many_execs`: seconds, as in Retry-After.")] = None
    names: Annotated[list[str] | None, Field(description="Of `tool_name_collision`: both tools.")] = None
    js_name: Annotated[str | None, Field(description="Of `tool_name_collision`: the name they would share.")] = None
    allow: Annotated[list[str] | None, Field(description="Of `method_not_allowed`: what the path takes.")] = None


class Refusal(Response):
    """The response of a problem. It leaves its code with the request, for the audit."""

    def __init__(self, code: str, body: bytes, headers: dict[str, str]) -> None:
        super().__init__(body, STATUS[code], headers, MEDIA_TYPE)
        self._code = code

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller.enter(scope).refusal = self._code
        await super().__call__(scope, receive, send)


def problem(code: str, detail: str, model_text: str | None = None, **fields: Any) -> Response:
    """The response for a code. A field `retry_after_s` is the header Retry-After too, and `allow` is Allow."""
    status = STATUS[code]
    body: dict[str, Any] = {
        "type": f"urn:codemode:problem:{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "code": code,
        **fields,
    }
    if model_text is not None:
        body["model_output"] = [{"type": "input_text", "text": model_text}]
    headers = {}
    if status in (429, 503):
        headers["Retry-After"] = str(fields.get("retry_after_s", _RETRY_AFTER_S))
    if status == 405:
        headers["Allow"] = ", ".join(fields["allow"])
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return Refusal(code, to_json(body), headers)


def of_error(error: CodeModeError) -> Response:
    """The response for an error of the library."""
    return problem(error.code, error.detail, error.model_text, **error.fields)


def invalid_request(error: ValidationError) -> InvalidRequest:
    """What a model found wrong with a request, its place first; only the first few things."""
    said = []
    for found in error.errors(include_url=False, include_context=False, include_input=False)[:5]:
        place = ".".join(str(part) for part in found["loc"])
        message = found["msg"].removeprefix("Value error, ")
        if found["type"] == "extra_forbidden":
            message = "there is no such field"
        said.append(f"{place}: {message}" if place else f"the body: {message}")
    return InvalidRequest("; ".join(said)[:_MOST_DETAIL])


def install(app: FastAPI, methods: Callable[[str], list[str]]) -> None:
    """Answer every error of this application with a problem. `methods` says what a path takes."""

    async def on_error(_: Request, error: Exception) -> Response:
        assert isinstance(error, CodeModeError)
        return of_error(error)

    async def on_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if error.status_code == 405:
            taken = sorted(methods(request.scope["path"]))
            said = f"{request.method[:_MOST_METHOD]} is not what this path takes; it takes {', '.join(taken)}"
            return problem("method_not_allowed", said, allow=taken)
        return problem("not_found", f"there is nothing at {request.url.path[:200]}")

    async def on_surprise(_: Request, error: Exception) -> Response:
        _log.error("a request failed", exc_info=error)
        return problem("internal_error", "the service failed to handle this request; its log says more")

    async def on_gone(_: Request, __: Exception) -> Response:
        return Response(status_code=499)  # nobody reads it

    async def on_untaken(_: Request, __: Exception) -> Response:
        return problem("overloaded", UNTAKEN)

    app.add_exception_handler(CodeModeError, on_error)
    app.add_exception_handler(Untaken, on_untaken)
    app.add_exception_handler(ClientGone, on_gone)
    app.add_exception_handler(ClientDisconnect, on_gone)
    app.add_exception_handler(HTTPException, on_http)
    app.add_exception_handler(Exception, on_surprise)
