"""The commands of a session: those that its calls have left running, and those that a person runs."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from codemode.service import CodeMode
from codemode.sessions.actions import process_told
from codemode.sessions.commands import UserCommand

from ..caller import tenant
from ..exchange import answer
from ..openapi import SESSION_CODES, body_of, problems
from ..schemas import UserShellRequest
from ..views import CommandItem, ProcessView


def router(service: CodeMode) -> APIRouter:
    """The routes of commands."""
    routes = APIRouter(prefix="/v1/sessions/{sid}", tags=["commands"])

    @routes.get(
        "/processes",
        summary="List the commands of calls that run",
        response_model=list[ProcessView],
        responses=problems(*SESSION_CODES),
    )
    async def processes(sid: str, request: Request) -> Response:
        return answer([process_told(each) for each in service.session(sid, tenant(request)).processes()])

    @routes.delete(
        "/processes/{process_id}",
        status_code=204,
        summary="End a command of a call",
        responses=problems(*SESSION_CODES, "process_not_found"),
    )
    async def end_process(sid: str, process_id: str, request: Request) -> Response:
        service.session(sid, tenant(request)).end_process(_number(process_id))
        return Response(status_code=204)

    @routes.post(
        "/user_shell",
        status_code=202,
        summary="Run a command of a person",
        openapi_extra=body_of(UserShellRequest),
        response_model=CommandItem,
        responses=problems(*SESSION_CODES, "payload_too_large", "exec_not_allowed"),
    )
    async def user_shell(sid: str, request: Request) -> Response:
        session = service.session(sid, tenant(request))
        wanted: UserShellRequest = UserShellRequest.read(await request.body())
        started = await session.user_shell(
            wanted.command, workdir=wanted.workdir or ".", turn_id=wanted.turn_id, timeout_ms=wanted.timeout_ms
        )
        await session.recorder.settled()
        return _shown(started, 202)

    @routes.get(
        "/user_shell",
        summary="List the commands of people",
        response_model=list[CommandItem],
        responses=problems(*SESSION_CODES),
    )
    async def user_commands(sid: str, request: Request) -> Response:
        return answer([each.item for each in service.session(sid, tenant(request)).user_commands()])

    @routes.get(
        "/user_shell/{command_id}",
        summary="Show a command of a person",
        response_model=CommandItem,
        responses=problems(*SESSION_CODES, "process_not_found"),
    )
    async def user_command(sid: str, command_id: str, request: Request) -> Response:
        return _shown(service.session(sid, tenant(request)).user_command(command_id))

    @routes.post(
        "/user_shell/{command_id}/cancel",
        summary="End a command of a person",
        response_model=CommandItem,
        responses=problems(*SESSION_CODES, "process_not_found"),
    )
    async def cancel(sid: str, command_id: str, request: Request) -> Response:
        session = service.session(sid, tenant(request))
        ended = await session.cancel_user_command(command_id)
        await session.recorder.settled()
        return _shown(ended)

    return routes


def _shown(command: UserCommand, status: int = 200) -> Response:
    return answer(command.item, status)


def _number(text: str) -> int:
    """A process's number; one that is none is that of no process."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0
