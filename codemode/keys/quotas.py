"""What one tenant may use of the service: live cells, and execs a minute."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from codemode.errors import TooManyCells, TooManyExecs
from codemode.limits import Limits

_MINUTE_S: Final = 60.0
_ROUNDING: Final = 1e-6  # what sums of pauses may lack, or else who waited as long as told would be refused again


class TokenBucket:
    """Lets `capacity` things pass at once, and `per_second` more each second. It is told the time and keeps no timer.

    In any span of t seconds at most `capacity + t * per_second` pass. A clock that goes back does no harm.
    """

    def __init__(self, capacity: float, per_second: float) -> None:
        self._capacity = capacity
        self._per_second = per_second
        self._tokens = capacity
        self._seen: float | None = None  # when the tokens were counted last

    def take(self, now: float) -> float:
        """Take one: 0 if it passes; else nothing is taken, and these are the seconds until one would."""
        if self._seen is not None and now > self._seen:
            self._tokens = min(self._capacity, self._tokens + (now - self._seen) * self._per_second)
        if self._seen is None or now > self._seen:
            self._seen = now
        if self._tokens >= 1 - _ROUNDING:
            self._tokens = max(0.0, self._tokens - 1)
            return 0.0
        return (1 - self._tokens) / self._per_second


@dataclass(slots=True)
class _Use:
    """What a tenant uses."""

    execs: TokenBucket
    live_cells: int = 0


class Quotas:
    """Counts cells and execs by tenant, whose name is the `key`; without keys all are one, whose name is empty.

    What is refused is not counted. A tenant that was seen once is remembered, in some hundred bytes; they come
    from the operator's key file, so there are not many.
    """

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._clock = clock
        self._uses: dict[str, _Use] = {}

    def admit(self, key: str) -> None:
        """Count one exec and one live cell more. Raises TooManyCells, TooManyExecs; then nothing is counted."""
        use = self._uses.get(key)
        if use is None:
            most = self._limits.execs_per_minute_key
            use = self._uses[key] = _Use(TokenBucket(most, most / _MINUTE_S))
        if use.live_cells >= self._limits.max_cells_key:
            raise TooManyCells(
                f"the tenant has {use.live_cells} live cells, as many as it may; wait for one to end, or terminate one"
            )
        wait_s = use.execs.take(self._clock())
        if wait_s > 0:
            raise TooManyExecs(self._limits.execs_per_minute_key, math.ceil(wait_s))
        use.live_cells += 1

    def release(self, key: str) -> None:
        """One live cell less."""
        self._uses[key].live_cells -= 1
