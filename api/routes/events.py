"""The events of a session and of a cell, as server-sent events."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter, Request, Response

from codemode.errors import InvalidRequest
from codemode.service import CodeMode
from codemode.sessions.session import Session

from ..caller import tenant
from ..exchange import answer
from ..openapi import SESSION_CODES, problems
from ..shares import Shares
from ..stream import EventStream
from ..views import LifecycleView

_MOST_DIGITS: Final = 16
_STREAM: Final[dict[str, Any]] = {
    "description": "`id`, `event` and `data`, one JSON object each; goes on until the session or the cell ends."
}
_ALL_HAD: Final[dict[str, Any]] = {"description": "The cell has ended, and all its events were had."}
_FROM: Final = {
    "parameters": [
        {
            "name": "Last-Event-ID",
            "in": "header",
            "required": False,
            "description": "Events after this number; 0, the default, is all that are kept.",
            "schema": {"type": "integer", "minimum": 0},
        },
        {
            "name": "after",
            "in": "query",
            "required": False,
            "description": "The same, for who cannot set a header; the header counts if there are both.",
            "schema": {"type": "integer", "minimum": 0},
        },
    ]
}
_CODES: Final = (*SESSION_CODES, "too_many_followers")


def router(service: CodeMode, shares: Shares) -> APIRouter:
    """The routes that follow what happens."""
    routes = APIRouter(prefix="/v1/sessions/{sid}", tags=["events"])

    @routes.get(
        "/events",
        summary="Follow a session",
        openapi_extra=_FROM,
        status_code=200,
        response_class=EventStream,
        responses={200: _STREAM, **problems(*_CODES)},
    )
    async def session_events(sid: str, request: Request) -> Response:
        return stream(service.session(sid, tenant(request)), _after(request), None)

    @routes.get(
        "/cells/{cell_id}/events",
        summary="Follow a cell until its end",
        openapi_extra=_FROM,
        status_code=200,
        response_class=EventStream,
        responses={200: _STREAM, 204: _ALL_HAD, **problems(*_CODES, "cell_not_found")},
    )
    async def cell_events(sid: str, cell_id: str, request: Request) -> Response:
        session, after = service.session(sid, tenant(request)), _after(request)
        last = session.cell(cell_id).last_event
        if last is not None and after >= last:
            return Response(status_code=204)  # tells a browser's EventSource not to come back
        return stream(session, after, cell_id)

    @routes.get(
        "/lifecycle",
        summary="Hold the events against the rules of starts and ends",
        response_model=LifecycleView,
        responses=problems(*SESSION_CODES, "journal_unavailable"),
    )
    async def lifecycle(sid: str, request: Request) -> Response:
        return answer(await service.session(sid, tenant(request)).lifecycle())

    def stream(session: Session, after: int, cell_id: str | None) -> Response:
        place = shares.following(session.key)
        return EventStream(session.follow(after, cell_id), session.session_id, place)

    return routes


def _after(request: Request) -> int:
    said = request.headers.get("last-event-id") or request.query_params.get("after", "0")
    if not (said.isascii() and said.isdecimal() and len(said) <= _MOST_DIGITS):
        raise InvalidRequest(f"Last-Event-ID or after: expected the number of an event, got {said[:40]!r}")
    return int(said)
