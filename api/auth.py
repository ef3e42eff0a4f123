"""Checks the bearer key of a request, before anything of its body is read."""

from __future__ import annotations

from collections import Counter
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from codemode.key_file import KeyFile
from codemode.keys import Keys

from . import caller
from .exchange import UNTAKEN
from .problems import problem

# Whoever watches over the service need not be able to use it. All else needs a key, what is added later too.
OPEN_PATHS: Final = frozenset({"/healthz", "/readyz"})
_HELP: Final = "send it in one header, Authorization: Bearer KEY"


class Authentication:
    """Plain ASGI middleware: with `keys` only who has one gets further; without, everybody is one nameless tenant.

    With keys no tenant has more than `most_requests` under way, so that its slow ones leave room for others.
    """

    def __init__(self, app: ASGIApp, keys: KeyFile | None, most_requests: int) -> None:
        self._app = app
        self._keys = keys
        self._most_requests = most_requests
        self._under_way: Counter[str] = Counter()  # by tenant

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        whose = caller.enter(scope)
        if self._keys is None or scope["path"] in OPEN_PATHS:
            whose.tenant = ""
            if whose.has_untaken and scope["path"] not in OPEN_PATHS:
                await problem("overloaded", UNTAKEN)(scope, receive, send)
            else:
                await self._app(scope, receive, send)
            return
        presented, keys = presented_key(scope["headers"]), self._keys.keys
        whose.tenant = None if presented is None else keys.tenant_of(presented)
        if presented is None or whose.tenant is None:
            what = "a key is needed" if presented is None else "the key is not known here"
            await problem("unauthorized", f"{what}; {_HELP}")(scope, receive, send)
            return
        whose.may_stay = Standing(self._keys, keys, presented, whose.tenant).holds
        await self._counted(whose.tenant, scope, receive, send)

    async def _counted(self, tenant: str, scope: Scope, receive: Receive, send: Send) -> None:
        if self._under_way[tenant] >= self._most_requests:
            what = f"{self._most_requests} requests of this key are under way, as many as may be"
            await problem("overloaded", what)(scope, receive, send)
            return
        if caller.enter(scope).has_untaken:
            await problem("overloaded", UNTAKEN)(scope, receive, send)
            return
        self._under_way[tenant] += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._under_way[tenant] -= 1
            if not self._under_way[tenant]:
                del self._under_way[tenant]


class Standing:
    """Whether a key that `checked` let in still would be let in. It costs nothing until the file was read again."""

    def __init__(self, file: KeyFile, checked: Keys, presented: bytes, tenant: str) -> None:
        self._file = file
        self._presented = presented
        self._tenant = tenant
        self._checked = checked

    def holds(self) -> bool:
        """Whether it still is a key of the same tenant."""
        keys = self._file.keys
        if keys is not self._checked and keys.tenant_of(self._presented) == self._tenant:
            self._checked = keys
        return keys is self._checked


def presented_key(headers: list[tuple[bytes, bytes]]) -> bytes | None:
    """The key of a request; None if there is none, or anything but one header with one key in it."""
    given = [value for name, value in headers if name == b"authorization"]
    if len(given) != 1:
        return None
    scheme, _, rest = given[0].strip(b" \t").replace(b"\t", b" ").partition(b" ")
    key = rest.strip(b" ")
    if scheme.lower() != b"bearer" or not key or b" " in key:
        return None
    return key
