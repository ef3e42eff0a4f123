"""exec, wait and tool_results, and the cells themselves."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter, Request, Response

from codemode.cells.observation import Observation
from codemode.errors import InvalidRequest, InvalidSource
from codemode.service import CodeMode
from codemode.sessions.session import Session

from ..caller import tenant
from ..exchange import answer, observed, while_connected
from ..openapi import OBSERVED, RESULTS_ANSWERED, SESSION_CODES, body_of, exec_body, problems
from ..schemas import ExecRequest, ToolResultsRequest, WaitRequest, exec_from_query
from ..views import Accepted, CellSummary, CellView, cell_summary, cell_view

_JAVASCRIPT: Final = ("text/javascript", "application/javascript")
_MOST_KEY: Final = 256
_EXEC_CODES: Final = (
    *SESSION_CODES,
    "invalid_source",
    "payload_too_large",
    "too_many_cells",
    "too_many_execs",
    "journal_unavailable",  # a repeat whose output is to be read
)
_WAIT_CODES: Final = (*SESSION_CODES, "payload_too_large", "cell_not_found", "cell_busy", "journal_unavailable")


def _exec_operation() -> dict[str, Any]:
    return {
        "summary": "Run a script",
        "openapi_extra": exec_body(),
        "responses": {**OBSERVED, **problems(*_EXEC_CODES)},
    }


def _wait_operation() -> dict[str, Any]:
    return {
        "summary": "Wait for a cell, or end it",
        "openapi_extra": body_of(WaitRequest),
        "responses": {**OBSERVED, **problems(*_WAIT_CODES)},
    }


def router(service: CodeMode) -> APIRouter:
    """The routes of cells; /v1/exec and /v1/wait act on the session named `default`."""
    routes = APIRouter(prefix="/v1", tags=["cells"])

    @routes.post("/exec", **_exec_operation())
    async def exec_default(request: Request) -> Response:
        return await _exec(request, service.default_session(tenant(request)))

    @routes.post("/wait", **_wait_operation())
    async def wait_default(request: Request) -> Response:
        return await _wait(request, service.default_session(tenant(request)))

    @routes.post("/sessions/{sid}/exec", **_exec_operation())
    async def exec_cell(sid: str, request: Request) -> Response:
        return await _exec(request, service.session(sid, tenant(request)))

    @routes.post("/sessions/{sid}/wait", **_wait_operation())
    async def wait_cell(sid: str, request: Request) -> Response:
        return await _wait(request, service.session(sid, tenant(request)))

    @routes.post(
        "/sessions/{sid}/tool_results",
        summary="Hand in the results of client calls",
        openapi_extra=body_of(ToolResultsRequest),
        responses={
            **RESULTS_ANSWERED,
            **problems(*_WAIT_CODES, "tool_call_not_found", "tool_call_already_resolved"),
        },
    )
    async def tool_results(sid: str, request: Request) -> Response:
        return await _tool_results(request, service.session(sid, tenant(request)))

    @routes.get(
        "/sessions/{sid}/cells",
        summary="List the cells that are known",
        response_model=list[CellSummary],
        responses=problems(*SESSION_CODES),
    )
    async def list_cells(sid: str, request: Request) -> Response:
        found = [cell_summary(cell) for cell in service.session(sid, tenant(request)).cells()]
        await service.journal.settled()
        return answer(found)

    @routes.get(
        "/sessions/{sid}/cells/{cell_id}",
        summary="Show a cell with its nested calls",
        response_model=CellView,
        responses=problems(*SESSION_CODES, "cell_not_found", "journal_unavailable"),
    )
    async def show_cell(sid: str, cell_id: str, request: Request) -> Response:
        found = cell_view(await service.session(sid, tenant(request)).whole_cell(cell_id))
        await service.journal.settled()
        return answer(found)

    return routes


async def _exec(request: Request, session: Session) -> Response:
    body = await request.body()
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type in _JAVASCRIPT:
        wanted = exec_from_query(_text(body), dict(request.query_params))
    else:
        if request.url.query:
            raise InvalidRequest("query parameters are for a bare source; in JSON they are fields of the body")
        wanted = ExecRequest.read(body)
    key = request.headers.get("idempotency-key")
    if key is not None and not 0 < len(key) <= _MOST_KEY:
        raise InvalidRequest(f"Idempotency-Key: expected 1 to {_MOST_KEY} characters")
    work = session.exec(
        wanted.source,
        yield_time_ms=wanted.yield_time_ms,
        max_output_tokens=wanted.max_output_tokens,
        tool_call_id=wanted.tool_call_id,
        turn_id=wanted.turn_id,
        idempotency_key=key,
    )
    return observed(await while_connected(request, work))


def _text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as problem:
        raise InvalidSource(f"the source is not UTF-8: byte {problem.start + 1} cannot be read") from None


async def _wait(request: Request, session: Session) -> Response:
    wanted: WaitRequest = WaitRequest.read(await request.body())
    return observed(await while_connected(request, _waited(session, wanted)))


async def _waited(session: Session, wanted: WaitRequest) -> Observation:
    return await session.wait(
        wanted.cell_id,
        yield_time_ms=wanted.yield_time_ms,
        max_tokens=wanted.max_tokens,
        after=wanted.after,
        terminate=bool(wanted.terminate),
    )


async def _tool_results(request: Request, session: Session) -> Response:
    wanted: ToolResultsRequest = ToolResultsRequest.read(await request.body())
    if wanted.cell_id is not None:
        session.check_observable(wanted.cell_id)
    accepted = session.tool_results([result.result() for result in wanted.results])
    if wanted.cell_id is None:
        await session.recorder.settled()
        return answer(Accepted(accepted=accepted))
    work = session.wait(wanted.cell_id, yield_time_ms=wanted.yield_time_ms)
    return observed(await while_connected(request, work))
