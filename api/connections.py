"""All connections of the HTTP side: how many there may be, and which one makes room for another."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .connection import Connection

_MOST_REFUSED: Final = 64  # connections beyond the limit that are told so; the rest is only closed
_SWEEPS: Final = 20  # in the time of the patience


class Connections:
    """All connections of a server, at most `most` at once, and `most_bytes` of bodies that are not complete.

    When all are taken, the one that has been idle longest is closed for a new one; if none is idle, the new one is
    answered `overloaded`. Once in a while every connection is looked at for what has taken too long.
    """

    def __init__(self, most: int, patience: float, most_bytes: int) -> None:
        self.most = most
        self.patience = patience
        self.most_bytes = most_bytes
        self.body_bytes = 0
        self.open: set[Connection] = set()
        self.refused: set[Connection] = set()
        self._idle: dict[Connection, None] = {}  # the longest one first
        self._timer: asyncio.TimerHandle | None = None

    def admit(self, connection: Connection) -> bool:
        """Count a new connection in, if there is room or can be made."""
        if len(self.open) >= self.most and not self._make_room():
            return False
        self.open.add(connection)
        self._idle[connection] = None
        self.watch(connection.loop)
        return True

    def refuses(self, connection: Connection) -> bool:
        """Whether it can be told that there is no room; it is not if too many are being told."""
        if len(self.refused) >= _MOST_REFUSED:
            return False
        self.refused.add(connection)
        self.watch(connection.loop)
        return True

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Look at every connection from time to time, as long as there is one."""
        if self._timer is None:
            self._timer = loop.call_later(self.patience / _SWEEPS, self._sweep, loop)

    def idle(self, connection: Connection) -> None:
        """Nothing is asked on it at this moment."""
        self._idle[connection] = None

    def busy(self, connection: Connection) -> None:
        """A request has come on it."""
        self._idle.pop(connection, None)

    def lost(self, connection: Connection) -> None:
        """It is closed."""
        self.open.discard(connection)
        self.refused.discard(connection)
        self._idle.pop(connection, None)

    def _make_room(self) -> bool:
        for connection in self._idle:
            if connection.transport.get_write_buffer_size() == 0:  # its last answer has been taken in
                connection.transport.abort()
                self.lost(connection)
                return True
        return False

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        now = loop.time()
        for connection in [*self.open, *self.refused]:
            connection.check(now)
        if self.open or self.refused:
            self.watch(loop)
