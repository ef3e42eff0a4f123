"""Direct calls of tools, the ends of turns, and the decisions of people."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter, Request, Response
from pydantic_core import to_json

from codemode.calls.approvals import Approval
from codemode.calls.direct import ToolAnswer
from codemode.service import CodeMode
from codemode.sessions.calling import approval_told

from ..caller import tenant
from ..exchange import Untaken, answer, while_connected
from ..openapi import SESSION_CODES, body_of, problems
from ..problems import problem
from ..schemas import DecisionRequest, ToolCallRequest, TurnEndRequest
from ..views import ApprovalView, DirectCallView, TurnEndView

_DROPPED: Final = (
    "the call has run, and its answer was dropped, since clients have not taken in earlier ones; do not send it again "
    "as it was: the session's events tell how it ended"
)
_BODY_CODES: Final = (*SESSION_CODES, "payload_too_large")


def router(service: CodeMode) -> APIRouter:
    """The routes of what is done in a session beside running scripts."""
    routes = APIRouter(prefix="/v1/sessions/{sid}", tags=["calls"])

    @routes.post(
        "/tools/{name:path}",
        summary="Call a tool directly",
        openapi_extra=body_of(ToolCallRequest),
        response_model=DirectCallView,
        responses=problems(*_BODY_CODES, "tool_not_found", "tool_use_id_taken", "answer_dropped"),
    )
    async def call_tool(sid: str, name: str, request: Request) -> Response:
        session = service.session(sid, tenant(request))
        wanted: ToolCallRequest = ToolCallRequest.read(await request.body())
        work = session.call_tool(name, wanted.input, tool_use_id=wanted.tool_use_id, turn_id=wanted.turn_id)
        try:
            return _answered(await while_connected(request, work))
        except Untaken:
            return problem("answer_dropped", _DROPPED)

    @routes.post(
        "/turns/{tid:path}/end",
        summary="End a turn, unless something of it still runs",
        openapi_extra=body_of(TurnEndRequest, required=False),
        response_model=TurnEndView,
        responses=problems(*_BODY_CODES),
    )
    async def end_turn(sid: str, tid: str, request: Request) -> Response:
        session = service.session(sid, tenant(request))
        wanted: TurnEndRequest = TurnEndRequest.read(await request.body() or b"{}")
        ended = session.end_turn(tid, detach=bool(wanted.detach))
        await session.recorder.settled()
        if not ended.needs_follow_up:
            return answer({"needs_follow_up": False})
        return answer({"needs_follow_up": True, "running": ended.running, "warning": ended.warning})

    @routes.get(
        "/approvals",
        summary="List the calls that wait for a person's decision",
        response_model=list[ApprovalView],
        responses=problems(*SESSION_CODES),
    )
    async def approvals(sid: str, request: Request) -> Response:
        return answer([approval_told(each) for each in service.session(sid, tenant(request)).approvals()])

    @routes.post(
        "/approvals/{approval_id}",
        summary="Decide about a call",
        openapi_extra=body_of(DecisionRequest),
        response_model=ApprovalView,
        responses=problems(*_BODY_CODES, "approval_not_found", "approval_already_resolved", "approval_mismatch"),
    )
    async def decide(sid: str, approval_id: str, request: Request) -> Response:
        session = service.session(sid, tenant(request))
        wanted: DecisionRequest = DecisionRequest.read(await request.body())
        settings = wanted.accept_settings
        decided = session.decide(
            approval_id,
            wanted.decision,
            for_session=settings is not None and bool(settings.for_session),
            arguments_hash=wanted.arguments_hash,
        )
        await session.recorder.settled()
        return answer(_decided(decided))

    return routes


def _answered(called: ToolAnswer) -> Response:
    """The result as it is JSON already."""
    if called.error is not None:
        return answer({"tool_use_id": called.tool_use_id, "error": called.error})
    body = b'{"tool_use_id":%b,"output":%b}' % (to_json(called.tool_use_id), called.result.payload)
    return Response(body, media_type="application/json")


def _decided(approval: Approval) -> dict[str, Any]:
    return {**approval_told(approval), "resolution": approval.resolution}
