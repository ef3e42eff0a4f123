"""All connections of the HTTP side: how many there may be, and which one makes room for another."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, MutableMapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .connection import Connection

_MOST_REFUSED: Final = 64  # connections beyond the limit that are told so; the rest is only closed
_MOST_RESERVED: Final = 8
_SWEEPS: Final = 20  # in the time of the patience
_SHARE: Final = 0.75  # of all bytes that one tenant may have on the way
_ANSWERS: Final = 4  # times as many bytes may be on their way to clients: one answer may have a hundred MiB

Refused = Callable[[MutableMapping[str, Any], str | None, str], None]  # told scope, tenant and code of each refusal


class Connections:
    """All connections of a server, at most `most` at once, and `most_bytes` of bodies that are not complete.

    When all are taken, the one that has been idle longest is closed for a new one. If none is idle, the new one is one
    of eight in reserve, on which only probes are answered: all else is refused there with `overloaded`. Once in a while
    every connection is looked at for what has taken too long. Of the bytes a tenant has three quarters at most, so that
    its slow requests keep nobody else out. `tell_of` hears of every refusal.
    """

    def __init__(self, most: int, patience: float, most_bytes: int, tell_of: Refused) -> None:
        self.most = most
        self.patience = patience
        self.most_bytes = most_bytes
        self.tell_of = tell_of
        self.body_bytes = 0
        self._bytes_of: Counter[str] = Counter()  # by tenant
        self._untaken: dict[Connection, str] = {}  # whose answer its client has not taken in → the tenant
        self.open: set[Connection] = set()
        self.told: set[Connection] = set()  # that there is no room for them
        self._reserve: set[Connection] = set()
        self._idle: dict[Connection, None] = {}  # the longest one first
        self._idle_in_reserve: dict[Connection, None] = {}  # the same
        self._timer: asyncio.TimerHandle | None = None

    def admit(self, connection: Connection) -> bool:
        """Count a connection in that is new, or in reserve, if there is room or can be made."""
        if len(self.open) >= self.most and not self._make_room(self._idle):
            return False
        self.lost(connection)
        self.open.add(connection)
        self.idle(connection)
        self.watch(connection.loop)
        return True

    def reserve(self, connection: Connection) -> bool:
        """Count a new one in for a probe, in the place of one that has not asked anything, if there has to be."""
        if len(self._reserve) >= _MOST_RESERVED and not self._make_room(self._idle_in_reserve):
            return False
        self._reserve.add(connection)
        self.idle(connection)
        self.watch(connection.loop)
        return True

    def has_room(self, connection: Connection) -> bool:
        """Whether it may ask for anything, not only as a probe."""
        return connection not in self._reserve or self.admit(connection)

    def refuses(self, connection: Connection) -> bool:
        """Whether it can be told that there is no room; it is not if too many are being told."""
        self.lost(connection)
        if len(self.told) >= _MOST_REFUSED:
            return False
        self.told.add(connection)
        self.watch(connection.loop)
        return True

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Look at every connection from time to time, as long as there is one."""
        if self._timer is None:
            self._timer = loop.call_later(self.patience / _SWEEPS, self._sweep, loop)

    def idle(self, connection: Connection) -> None:
        """Nothing is asked on it at this moment."""
        (self._idle_in_reserve if connection in self._reserve else self._idle)[connection] = None

    def busy(self, connection: Connection) -> None:
        """A request has come on it."""
        self._idle.pop(connection, None)
        self._idle_in_reserve.pop(connection, None)

    def lost(self, connection: Connection) -> None:
        """It is closed, or has another place."""
        self.open.discard(connection)
        self.told.discard(connection)
        self._reserve.discard(connection)
        self._untaken.pop(connection, None)
        self.busy(connection)

    def hold(self, tenant: str | None, length: int) -> None:
        """So many more bytes of bodies that are not complete, or fewer."""
        self.body_bytes += length
        if tenant:
            self._bytes_of[tenant] += length
            if not self._bytes_of[tenant]:
                del self._bytes_of[tenant]

    def is_full_for(self, tenant: str | None) -> bool:
        """Whether this tenant has more bytes on the way than it may, or all together have."""
        is_greedy = bool(tenant) and self._bytes_of[tenant or ""] > _SHARE * self.most_bytes
        return is_greedy or self.body_bytes > self.most_bytes

    def answered(self, connection: Connection, tenant: str | None) -> None:
        """An answer was written to it."""
        if connection.transport.get_write_buffer_size():
            self._untaken[connection] = tenant or ""

    def is_full_of_answers_for(self, tenant: str) -> bool:
        """Whether clients have taken in so little of their answers that this tenant must not be given more."""
        of_all = of_tenant = 0
        for connection, whose in list(self._untaken.items()):
            waiting = connection.transport.get_write_buffer_size()
            if waiting == 0:
                del self._untaken[connection]
            of_all += waiting
            of_tenant += waiting if whose == tenant else 0
        most = _ANSWERS * self.most_bytes
        return of_all > most or (bool(tenant) and of_tenant > _SHARE * most)

    def _make_room(self, idle: dict[Connection, None]) -> bool:
        for connection in idle:
            if connection.transport.get_write_buffer_size() == 0:  # its last answer has been taken in
                connection.transport.abort()
                self.lost(connection)
                return True
        return False

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        now = loop.time()
        for connection in [*self.open, *self._reserve, *self.told]:
            connection.check(now)
        if self.open or self._reserve or self.told:
            self.watch(loop)
