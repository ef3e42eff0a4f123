"""One line for each request that is refused. It never holds a key, a body or a source."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from starlette.types import ASGIApp, Receive, Scope, Send

from codemode.keys.quotas import TokenBucket

from . import caller
from .auth import OPEN_PATHS
from .problems import STATUS

_BURST: Final = 20.0  # lines of one code at once
_PER_SECOND: Final = 5.0
_SUM_UP_S: Final = 1.0
_MOST_PATH: Final = 200
_MOST_OTHER: Final = 100
_log = logging.getLogger("codemode.audit")


class AuditLog:
    """Writes the lines, JSON, to the logger `codemode.audit` at the level `warning`.

    Of each code 20 lines pass at once and 5 a second, so that a flood of one refusal hides no other; how many
    were left out is said a second later.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._budgets: dict[str, TokenBucket] = {}
        self._left_out: Counter[str] = Counter()
        self._timer: asyncio.TimerHandle | None = None

    def refused(self, scope: Mapping[str, Any], tenant: str | None, code: str) -> None:
        """A request was refused with this code."""
        if not _log.isEnabledFor(logging.WARNING):
            return
        budget = self._budgets.get(code)
        if budget is None:
            budget = self._budgets[code] = TokenBucket(_BURST, _PER_SECOND)
        if budget.take(self._clock()) == 0:
            _write("refused", **_told(scope, tenant, code))
            return
        self._left_out[code] += 1
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_SUM_UP_S, self.sum_up)

    def sum_up(self) -> None:
        """Say how many lines were left out since it was said last, if any were."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._left_out:
            _write("left_out", codes=dict(self._left_out))
            self._left_out.clear()


class Audit:
    """Plain ASGI middleware, the outermost: it sees every refusal of a request that was read (Connection tells of the
    others). What is not refused costs it nothing but a look.

    Not told are faults of ours, which have a log of their own, and /readyz, which says 503 as its answer.
    """

    def __init__(self, app: ASGIApp, log: AuditLog) -> None:
        self._app = app
        self._log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        whose = caller.enter(scope)
        await self._app(scope, receive, send)
        if whose.refusal is not None and whose.refusal != "internal_error" and scope["path"] not in OPEN_PATHS:
            self._log.refused(scope, whose.tenant, whose.refusal)


def _told(scope: Mapping[str, Any], tenant: str | None, code: str) -> dict[str, Any]:
    client = scope.get("client")
    request_id = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"-")
    return {
        "client": client[0] if client else "-",
        "method": scope["method"][:_MOST_OTHER],
        "path": scope["path"][:_MOST_PATH],
        "status": STATUS[code],
        "code": code,
        "tenant": tenant or "-",
        "request_id": request_id[:_MOST_OTHER].decode("latin-1"),
    }


def _write(event: str, **told: Any) -> None:
    """JSON in ASCII: whatever a caller sends, it is one line, and nothing in it moves a terminal's cursor."""
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    _log.warning("%s", json.dumps({"time": at, "event": event, **told}))
