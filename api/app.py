"""The ASGI application."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from fastapi import FastAPI
from starlette.routing import Route

import codemode
from codemode.keys.key_file import KeyFile
from codemode.mcp.extra import is_installed
from codemode.service import CodeMode

from . import openapi, problems
from .audit import Audit, AuditLog
from .auth import Authentication
from .declared import Declared, QueryCheck
from .guard import Guard
from .routes import calls, cells, commands, events, mcp, ops, sessions, specs
from .shares import Shares

# JSON may write one byte of a source as six, and tool results come several at a time.
_LEAST_BODY: Final = 1024 * 1024
_ESCAPED: Final = 6


def create_app(
    service: CodeMode,
    *,
    local_only: bool = True,
    keys: KeyFile | None = None,
    audit: AuditLog | None = None,
    connections: int | None = None,
    with_mcp: bool = True,
) -> FastAPI:
    """The application for a service that is not started yet: the application's lifespan is the service's.

    `local_only` refuses requests from web pages of other origins, see Guard. With `keys` only those who have
    one get in; the file is watched. `audit` is for who tells it of more than this application refuses. Of so many
    `connections` one tenant gets a part only, see Shares. `with_mcp` serves MCP clients at /mcp, where the package for
    that is installed.
    """
    audit = audit or AuditLog()
    endpoint = mcp.McpEndpoint(service) if with_mcp and is_installed() else None
    shares = Shares(connections, service.limits.max_followers_key)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(service)
            if keys is not None:
                await stack.enter_async_context(keys.watched())
            if endpoint is not None:
                await stack.enter_async_context(endpoint)
            yield
        audit.sum_up()

    app = FastAPI(
        title="codemode",
        version=codemode.__version__,
        summary="Runs JavaScript that calls many tools, each script in a V8 isolate and a process of its own.",
        lifespan=lifespan,
        docs_url=None,  # its page would load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,  # to a place that the request names, and by http behind a proxy that speaks TLS
    )
    routers = (
        sessions.router(service),
        cells.router(service),
        calls.router(service),
        commands.router(service),
        specs.router(service),
        events.router(service, shares),
        ops.router(service, tells_all=keys is None),
    )
    for router in routers:
        app.include_router(router)
    if endpoint is not None:
        app.router.routes.append(Route(mcp.PATH, endpoint, methods=None, include_in_schema=False))
    declared = Declared(routers)
    problems.install(app, lambda path: list(declared.methods(path)))
    openapi.install(app)
    limits = service.limits
    most_body = _LEAST_BODY + max(_ESCAPED * limits.max_source_bytes, 2 * limits.max_tool_result_bytes)
    app.add_middleware(QueryCheck, declared=declared)
    app.add_middleware(Guard, most_body=most_body, local_only=local_only)
    app.add_middleware(Authentication, keys=keys, shares=shares)  # the one added last comes first
    app.add_middleware(Audit, log=audit)
    return app
