"""What a backend tells its model of a session: the tools `exec` and `wait`."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from fastapi import APIRouter, Request, Response

from codemode.errors import InvalidRequest
from codemode.service import CodeMode
from codemode.tools.specs import FORMATS

from ..caller import tenant
from ..exchange import answer
from ..openapi import SESSION_CODES, problems

_FORMAT: Final = {
    "parameters": [
        {
            "name": "format",
            "in": "query",
            "required": True,
            "description": "The API whose requests have the answer as (a part of) their `tools`.",
            "schema": {"type": "string", "enum": list(FORMATS)},
        }
    ]
}


def router(service: CodeMode) -> APIRouter:
    """The route of tool specifications."""
    routes = APIRouter(prefix="/v1/sessions/{sid}", tags=["specs"])
    describing = asyncio.Semaphore(1)  # a thousand tools take a second of computing: on one thread, beside all others

    @routes.get(
        "/tool_specs",
        summary="Describe exec, wait and the session's tools to a model",
        openapi_extra=_FORMAT,
        response_model=list[dict[str, Any]],
        responses=problems(*SESSION_CODES),
    )
    async def specs(sid: str, request: Request) -> Response:
        session = service.session(sid, tenant(request))
        wanted = request.query_params.get("format")
        if wanted is None:
            raise InvalidRequest(f"format: required; one of {', '.join(FORMATS)}")
        await session.tools_ready()
        async with describing:
            return answer(await asyncio.to_thread(session.tool_specs, wanted))

    return routes
