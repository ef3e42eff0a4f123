"""Checks the bearer key of a request, before anything of its body is read."""

from __future__ import annotations

from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from codemode.keys.key import Key, Keys
from codemode.keys.key_file import KeyFile

from . import caller
from .exchange import UNTAKEN
from .problems import problem
from .shares import Shares

# Whoever watches over the service need not be able to use it. All else needs a key, what is added later too.
OPEN_PATHS: Final = frozenset({"/healthz", "/readyz"})
# What tells of all tenants: for keys of an operator, which are for nothing else.
OPERATOR_PATHS: Final = frozenset({"/metrics"})
_HELP: Final = "send it in one header, Authorization: Bearer KEY"


class Authentication:
    """Plain ASGI middleware: with `keys` only who has one gets further; without, everybody is one nameless tenant.

    A key of an operator is for the numbers of the service alone, and they are for no other. With keys no tenant gets
    further that holds its share of the connections already.
    """

    def __init__(self, app: ASGIApp, keys: KeyFile | None, shares: Shares) -> None:
        self._app = app
        self._keys = keys
        self._shares = shares

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
        else:
            presented, keys = presented_key(scope["headers"]), self._keys.keys
            key = None if presented is None else keys.find(presented)
            if presented is None or key is None:
                what = "a key is needed" if presented is None else "the key is not known here"
                await problem("unauthorized", f"{what}; {_HELP}")(scope, receive, send)
                return
            whose.tenant = key.tenant
            if key.is_operator != (scope["path"] in OPERATOR_PATHS):
                is_for = f"only for {', '.join(OPERATOR_PATHS)}" if key.is_operator else "not one of an operator"
                await problem("unauthorized", f"the key is {is_for}")(scope, receive, send)
                return
            if not self._shares.has_room(whose.tenant):
                held = f"{self._shares.most_requests} requests of the tenant are being answered, as many as may be"
                await problem("overloaded", held)(scope, receive, send)
                return
            if whose.has_untaken:
                await problem("overloaded", UNTAKEN)(scope, receive, send)
                return
            whose.may_stay = Standing(self._keys, keys, presented, key).holds
            with self._shares.asking(whose.tenant):
                await self._app(scope, receive, send)


class Standing:
    """Whether a key that `checked` let in still would be let in. It costs nothing until the file was read again."""

    def __init__(self, file: KeyFile, checked: Keys, presented: bytes, key: Key) -> None:
        self._file = file
        self._presented = presented
        self._gives = (key.tenant, key.is_operator)
        self._checked = checked

    def holds(self) -> bool:
        """Whether it still is a key of the same tenant."""
        keys = self._file.keys
        if keys is not self._checked:
            key = keys.find(self._presented)
            if key is not None and (key.tenant, key.is_operator) == self._gives:
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
