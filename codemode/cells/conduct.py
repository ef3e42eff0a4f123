"""Holds the process of a cell to what an honest one can do, where no limit of the session does."""

from __future__ import annotations

import time
from typing import Final

from codemode.isolation.wire import FromCell, ProtocolError, State
from codemode.limits import MIB, Limits

# Frames that bring nothing: states, yields, warnings. An honest process sends one state a turn, which takes it 55 µs,
# and two yields in a row as one; one that floods sends 300 000 a second and more. Each takes the service about 2 µs.
_BURST: Final = 100_000
_PER_SECOND: Final = 100_000
_SHORT: Final = 64  # bytes; what is longer counts as several
_CPU_SLACK_US: Final = 10_000_000  # the kernel ends a process 3 s after its limit
_MOST_LOSSES: Final = 8  # all spares may be killed at once, and each given away before that is noticed
_HEAP_SLACK: Final = 4096 * MIB  # a heap of V8 is never larger; off Linux its limit may be passed by a burst

_WITH_OWN_LIMIT: Final = frozenset(FromCell) - {FromCell.YIELD, FromCell.WARN, FromCell.STATE, FromCell.READY}


class Conduct:
    """What a process has done so far. Whatever an honest one cannot do is a ProtocolError."""

    def __init__(self, limits: Limits) -> None:
        self._most_cpu_us = limits.cpu_ms * 1000 + _CPU_SLACK_US
        self._most_heap = limits.memory_mb * MIB + _HEAP_SLACK
        self._allowed: float = _BURST
        self._since = time.monotonic()
        self._delivered = 0
        self._was_heard = False
        self._losses = 0

    def count(self, kind: int, size: int) -> None:
        """A frame has come. Raises ProtocolError when too many of them brought nothing."""
        self._was_heard = True
        if kind in _WITH_OWN_LIMIT:
            self._allowed += 1  # a script may yield behind each of them
            return
        cost = 1 + size // _SHORT
        self._allowed -= cost
        if self._allowed < 0:
            now = time.monotonic()
            self._allowed = min(_BURST, (now - self._since) * _PER_SECOND) - cost
            self._since = now
            if self._allowed < 0:
                raise ProtocolError("a flood of frames that bring nothing")

    def may_start_again(self) -> bool:
        """Whether a process that was killed may be replaced: it had done nothing, and that is not the rule here."""
        self._losses += 1
        return not self._was_heard and self._losses <= _MOST_LOSSES

    def state(self, payload: bytes, resolved: int) -> State:
        """A STATE of a process that was given the results of `resolved` calls."""
        state = State.decode(payload)
        if not self._delivered <= state.delivered <= resolved:
            raise ProtocolError(f"it took in {state.delivered} results of {resolved}")
        if state.cpu_us > self._most_cpu_us or state.heap_bytes > self._most_heap:
            raise ProtocolError("it used more than it can have")
        self._delivered = state.delivered
        return state
