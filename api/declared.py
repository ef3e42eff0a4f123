"""What routes declare for the OpenAPI document, where it counts for a request: methods and query parameters."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import parse_qsl

from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from .problems import problem

_STRICT: Final = "/v1/"
_DOCUMENT: Final = re.compile(r"^/openapi\.json$")
_MOST_SHOWN: Final = 100


class Declared:
    """What the routes of some routers take, by path: methods, and for each the query parameters that it documents."""

    def __init__(self, routers: Iterable[APIRouter]) -> None:
        self._places: dict[re.Pattern[str], dict[str, frozenset[str]]] = {
            _DOCUMENT: {"GET": frozenset(), "HEAD": frozenset()}
        }
        for route in (route for router in routers for route in router.routes):
            if isinstance(route, APIRoute):
                parameters = (route.openapi_extra or {}).get("parameters", ())
                names = frozenset(each["name"] for each in parameters if each["in"] == "query")
                self._places.setdefault(route.path_regex, {}).update(dict.fromkeys(route.methods or (), names))

    def methods(self, path: str) -> dict[str, frozenset[str]]:
        """What a path takes; nothing for one that is not there."""
        return next((methods for pattern, methods in self._places.items() if pattern.match(path)), {})


class QueryCheck:
    """Plain ASGI middleware: under /v1 a query parameter that is not declared, or given twice, is refused.

    One that was misspelt would be no error else, and do something other than what was meant: `?aftr=7` everything.
    """

    def __init__(self, app: ASGIApp, declared: Declared) -> None:
        self._app = app
        self._declared = declared

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        wrong = None
        if scope["type"] == "http" and scope["query_string"] and scope["path"].startswith(_STRICT):
            wrong = self._wrong(scope["method"], scope["path"], scope["query_string"].decode("latin-1"))
        if wrong is None:
            await self._app(scope, receive, send)
        else:
            await problem("invalid_request", wrong)(scope, receive, send)

    def _wrong(self, method: str, path: str, query: str) -> str | None:
        known = self._declared.methods(path).get(method)
        if known is None:
            return None  # there is nothing, and that is the answer
        seen = set()
        for name, _ in parse_qsl(query, keep_blank_values=True):
            if name not in known:
                there_are = f"there are {', '.join(sorted(known))}" if known else "there are none here"
                return f"{name[:_MOST_SHOWN]}: there is no such query parameter; {there_are}"
            if name in seen:
                return f"{name}: given twice in the query"
            seen.add(name)
        return None
