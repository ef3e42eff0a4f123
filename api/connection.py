"""One connection: how long its client may take over its part, and how much it may send.

uvicorn bounds none of this. What a client has to send or to take in has `patience` seconds, and one second more for
each KiB that has passed: a slow link is given its time, a byte now and then is not. No more than `patience` is ever
left, so what came quickly buys no hours of silence.
"""

from __future__ import annotations

import asyncio
import enum
from functools import partial
from typing import Any, Final, cast

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from . import caller
from .auth import OPEN_PATHS
from .connections import Connections, Refused
from .problems import problem
from .unsent import Unsent

_SLOWEST: Final = 1024  # bytes a second, once the patience is used up
_MOST_HEAD: Final = 64 * 1024  # bytes of a request line with its headers
_MOST_HEADERS: Final = 256
_MOST_AHEAD: Final = 16  # requests that are read while an earlier one is not answered
_PROBED: Final = frozenset(path.encode() for path in OPEN_PATHS)
_LINGER_S: Final = 2.0  # to read on after a refusal: closing at once would take it from the client again

_TOO_LARGE: Final = (
    "headers_too_large",
    f"the head of a request may have {_MOST_HEAD} bytes and {_MOST_HEADERS} headers",
)


class _Stopped(Exception):
    """Stops the parser."""


def protocol(most: int, patience: float, refused: Refused, most_bytes: int = 256 * 1024 * 1024) -> partial[Connection]:
    """What uvicorn makes each connection of, for one server. See Connections."""
    return partial(Connection, Connections(most, patience, most_bytes, refused))


class Reading(enum.Enum):
    """Which part of a request is awaited from a client."""

    NOTHING = "nothing"
    HEAD = "the head of a request"
    BODY = "the body of a request"


class Connection(HttpToolsProtocol):
    """A connection whose client cannot hold it for nothing.

    It hears of a hang-up also behind pipelined requests, up to sixteen. What is refused here is a problem as well;
    behind a request that is still to be answered there is no place for one, and the connection is closed.
    """

    def __init__(self, every: Connections, **options: Any) -> None:
        super().__init__(**options)
        self._every = every
        self._answering: RequestResponseCycle | None = None  # whose turn it is; `cycle` is the last one read
        self._reading = Reading.HEAD
        self._due = 0.0  # when more of it has to have come
        self._passed = 0  # bytes of it
        self._begun = False  # a request began in the bytes that came last
        self._fields = 0  # bytes of a head that the parser has told of
        self._held = 0  # bytes of a body that is not complete
        self._held_by: str | None = None  # the tenant that they are counted for, as soon as that is known
        self._refusal = ("malformed_request", "this is no HTTP request")  # when the parser stops
        self._closes_at: float | None = None  # set by a refusal: nothing that comes counts any more
        self._unsent = Unsent()

    # From the transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._read(Reading.HEAD)
        if not self._every.admit(self) and not self._every.reserve(self):
            self._refuse_for_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._every.lost(self)
        self._let_go()
        for cycle in (self._answering, *(queued for queued, _ in self.pipeline)):
            _hang_up(cycle)  # uvicorn tells the last one alone
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        if self._closes_at is not None:
            return
        if self._reading is Reading.NOTHING:
            self._read(Reading.HEAD)
        self._begun = False
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # it is answered as if it had not asked
        except httptools.HttpParserError:
            if self._closes_at is None:
                self._refuse(*self._refusal)
        else:
            if self._reading is Reading.HEAD:
                self._pass(1 if self._begun else len(data))
                if self._passed > _MOST_HEAD:  # the parser keeps a field for itself until it is complete
                    self._refuse(*_TOO_LARGE)

    def shutdown(self) -> None:
        if self._closes_at is not None or (self._reading is Reading.BODY and not self._is_pending):
            self._abort()  # what is not complete was not asked
        else:
            super().shutdown()

    # From the parser

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._read(Reading.HEAD)
        self._begun, self._fields = True, 0

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._count(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._count(len(name) + len(value))

    def on_headers_complete(self) -> None:
        if self.url.partition(b"?")[0] not in _PROBED and not self._every.has_room(self):
            self._refuse_for_room()
            raise _Stopped
        super().on_headers_complete()
        self._every.busy(self)
        self._read(Reading.BODY)
        if 0 < len(self.pipeline) < _MOST_AHEAD:
            self.flow.resume_reading()  # or else nobody would hear of a hang-up

    def on_body(self, body: bytes) -> None:
        super().on_body(body)
        if self.cycle.response_complete:
            return  # it was refused, and nobody keeps the rest
        self._pass(len(body))
        if self._held_by is None:  # who sends it is known when the application has begun
            held = self._held
            self._let_go()
            self._held_by = _tenant_of(self.cycle)
            self._hold(held)
        self._hold(len(body))
        if self._every.is_full_for(self._held_by):
            whose = "all requests" if self._every.is_full_for(None) else "the requests of the tenant"
            self._refusal = ("overloaded", f"{whose} that come in have more bytes together than are taken")
            raise _Stopped

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._let_go()
        self._read(Reading.NOTHING)
        self._rest()

    # From the application

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answering = cycle
        caller.enter(cast("dict[str, Any]", cycle.scope)).is_full_for = self._every.is_full_of_answers_for
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        if self._answering is not None:
            self._every.answered(self, _tenant_of(self._answering))
        super().on_response_complete()
        if self._reading is Reading.BODY:  # it was refused before it was complete: there is some time to send the rest
            self._let_go()
            self._read(Reading.BODY)
        self._rest()

    # What takes too long

    def check(self, now: float) -> None:
        """Close it if its client has taken too long over its part."""
        allowed = self._every.patience
        if self._closes_at is not None:
            if now >= self._closes_at:
                self._abort()
        elif self._unsent.is_overdue(self.transport, now, allowed, _SLOWEST):
            self._abort()
        elif self._reading is not Reading.NOTHING and now > self._due:
            self._end_reading(now)

    def _end_reading(self, now: float) -> None:
        if self._is_pending or self.flow.read_paused:  # it is not the client who is slow
            self._due = now + self._every.patience
        elif self._reading is Reading.HEAD and self._passed == 0:
            self.transport.close()  # nothing was asked
        elif self._reading is Reading.BODY and self.cycle.response_started:
            self._abort()
        else:
            allowed = f"{self._every.patience:g} s, and at most one more for each KiB that has come"
            self._refuse("request_timeout", f"{self._reading.value} is not complete after {allowed}")

    def _refuse_for_room(self) -> None:
        if self._every.refuses(self):
            self._refuse("overloaded", f"all of the {self._every.most} connections that there may be are busy")
        else:
            self._note("overloaded")
            self._abort()

    def _refuse(self, code: str, detail: str) -> None:
        """Say why, and close. What the client still sends is read for a moment, or else it would not get to hear it."""
        self._note(code)
        if self._is_pending or (self._reading is Reading.BODY and self.cycle.response_started):
            self._abort()
            return
        answer = problem(code, detail)
        headers = [*self.server_state.default_headers, *answer.raw_headers, (b"connection", b"close")]
        lines = b"".join(b"%b: %b\r\n" % header for header in headers)
        self.transport.write(STATUS_LINE[answer.status_code] + lines + b"\r\n" + bytes(answer.body))
        self.transport.write_eof()
        self.flow.resume_reading()
        self._closes_at = self.loop.time() + _LINGER_S
        self._let_go()
        _hang_up(self._answering)

    def _note(self, code: str) -> None:
        """Leave word of a refusal for the audit: of a request whose head is not complete little is known."""
        scope: dict[str, Any] = {"method": "-", "path": "-", "headers": []}
        if self._reading is Reading.BODY:
            scope |= cast("dict[str, Any]", self.cycle.scope)
        self._every.tell_of(scope | {"client": self.client}, caller.enter(scope).tenant, code)

    def _abort(self) -> None:
        self._closes_at = 0.0
        self.transport.abort()

    # What is going on

    @property
    def _is_pending(self) -> bool:
        """Whether a request waits for its answer that has been read to its end."""
        cycle = self._answering
        if cycle is None or cycle.response_complete:
            return False
        return cycle is not self.cycle or self._reading is not Reading.BODY

    def _rest(self) -> None:
        """Let it make room for another: nothing is asked on it, or what is still to come was answered already."""
        is_over = self._reading is Reading.NOTHING or (self._reading is Reading.BODY and self.cycle.response_complete)
        if is_over and not self._is_pending and not self.transport.is_closing():
            self._every.idle(self)

    def _read(self, what: Reading) -> None:
        self._reading, self._due, self._passed = what, self.loop.time() + self._every.patience, 0

    def _pass(self, length: int) -> None:
        self._passed += length
        self._due = min(self._due + length / _SLOWEST, self.loop.time() + self._every.patience)

    def _count(self, length: int) -> None:
        self._fields += length
        if self._fields > _MOST_HEAD or len(self.headers) > _MOST_HEADERS:
            self._refusal = _TOO_LARGE
            raise _Stopped

    def _hold(self, length: int) -> None:
        self._held += length
        self._every.hold(self._held_by, length)

    def _let_go(self) -> None:
        self._hold(-self._held)
        self._held_by = None


def _tenant_of(cycle: RequestResponseCycle) -> str | None:
    return caller.enter(cast("dict[str, Any]", cycle.scope)).tenant


def _hang_up(cycle: RequestResponseCycle | None) -> None:
    """Tell the application that nobody waits for this answer."""
    if cycle is not None and not cycle.response_complete:
        cycle.disconnected = True
        cycle.message_event.set()
