"""Making, showing and deleting sessions."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Request, Response

from codemode.errors import PayloadTooLarge
from codemode.service import CodeMode

from ..caller import tenant
from ..exchange import answer, while_connected
from ..openapi import SESSION_CODES, body_of, problems
from ..schemas import SessionRequest
from ..views import SessionSummary, SessionView

_MOST_BODY: Final = 4 * 1024 * 1024


def router(service: CodeMode) -> APIRouter:
    """The routes under /v1/sessions."""
    routes = APIRouter(prefix="/v1/sessions", tags=["sessions"])

    @routes.post(
        "",
        status_code=201,
        summary="Make a session",
        openapi_extra=body_of(SessionRequest, required=False),
        responses={
            201: {"model": SessionView},
            **problems(
                "invalid_request", "payload_too_large", "tool_name_collision", "too_many_sessions", "shutting_down"
            ),
        },
    )
    async def create(request: Request) -> Response:
        body = await request.body()
        if len(body) > _MOST_BODY:
            raise PayloadTooLarge(f"the body has {len(body)} bytes; at most {_MOST_BODY} are accepted here")
        wanted: SessionRequest = SessionRequest.read(body or b"{}")
        session = service.create_session(
            [tool.tool() for tool in wanted.tools or ()],
            hooks=[hook.hook() for hook in wanted.hooks or ()],
            mcp_servers=[each.server() for each in wanted.mcp_servers or ()],
            limits=wanted.limits,
            metadata=wanted.metadata,
            approval_policy=wanted.approval_policy or "never",
            model_warnings=bool(wanted.model_warnings),
            lenient_source=bool(wanted.lenient_source),
            typescript=bool(wanted.typescript),
            key=tenant(request),
        )
        found = SessionView.of(session)
        await service.journal.settled()
        return answer(found, 201)

    @routes.get(
        "",
        summary="List the sessions of the caller's tenant",
        response_model=list[SessionSummary],
        responses=problems("invalid_request"),
    )
    async def list_sessions(request: Request) -> Response:
        found = [SessionSummary.of(session) for session in service.sessions.of(tenant(request))]
        await service.journal.settled()
        return answer(found)

    @routes.get("/{sid}", summary="Show a session", response_model=SessionView, responses=problems(*SESSION_CODES))
    async def show(sid: str, request: Request) -> Response:
        session = service.session(sid, tenant(request))
        await while_connected(request, session.tools_ready())
        found = SessionView.of(session)
        await service.journal.settled()  # a client may follow from the number that it is told
        return answer(found)

    @routes.delete(
        "/{sid}", status_code=204, summary="End a session and all its cells", responses=problems(*SESSION_CODES)
    )
    async def delete(sid: str, request: Request) -> Response:
        await service.delete_session(sid, tenant(request))
        return Response(status_code=204)

    return routes
