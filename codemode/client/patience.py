"""Asking again: what for, and how long a client goes on asking a service that is away. Nothing here sends."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final, NamedTuple

import httpx

from codemode.client import answers
from codemode.client.memory import CellMemory
from codemode.client.requests import Flow, Request

# No answer came, and the service may have done what was asked or not.
LOST: Final = (httpx.TimeoutException, httpx.NetworkError, httpx.RemoteProtocolError)
NOT_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout)  # of these, when it surely has not

# Refusals that pass by themselves: nothing was done, and it may be in a while.
PASSING: Final = frozenset({"shutting_down", "overloaded", "journal_unavailable", "isolation_unavailable"})
_LONGEST_BUSY_S: Final = 1.0  # between attempts while a lost call may be pending
_FIRST_DELAY_S: Final = 0.05
_LONGEST_DELAY_S: Final = 2.0
_MOST_DOUBLINGS: Final = 10  # by then it is the longest


class Patience:
    """A budget of `seconds` for one outage, which begins with the first attempt that is in vain.

    Pauses between attempts double from 0.05 to 2 seconds; the last attempt is made when the budget is used up.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since: float | None = None
        self._attempts = 0

    def again_in(self, asked_s: float = 0.0) -> float | None:
        """An attempt was in vain: seconds until the next one, None to give up.

        The next one comes no sooner than the service asked for, so it is given up at once when that is too late.
        """
        now = time.monotonic()
        if self._since is None:
            self._since = now
        left = self._since + self._seconds - now
        if left <= 0 or asked_s > left:
            return None
        return max(asked_s, min(self.pause(), left))

    def pause(self) -> float:
        """Seconds until the next attempt, of whatever kind, the budget apart."""
        self._attempts += 1
        return float(min(_FIRST_DELAY_S * 2 ** min(self._attempts - 1, _MOST_DOUBLINGS), _LONGEST_DELAY_S))

    def answered(self) -> None:
        """The service is there: the next outage has the whole budget. Pauses do not become shorter by that."""
        self._since = None

    def all_is_well(self) -> None:
        """The service has done what was asked for: pauses begin anew, too."""
        self._since, self._attempts = None, 0


class Sent(NamedTuple):
    """A response, and whether an earlier answer to the same request was lost."""

    response: httpx.Response
    again: bool


def persistently(
    make: Callable[[bool], Request],
    patience: Patience,
    memory: CellMemory | None = None,
    cell_id: str = "",
    lost: tuple[type[httpx.TransportError], ...] = LOST,
) -> Flow[Sent]:
    """Send what `make` gives; after a lost answer, which `make` is told of, or a refusal that passes, send again.

    With a `memory`, losses of calls that wait for the cell are noted there, and a refusal because one of
    them is taken for pending is not final. When the patience is at its end, the last loss is raised, and the
    last refusal is the response.
    """
    again, delay_s = False, 0.0
    while True:
        request = make(again)
        try:
            response = yield replace(request, delay_s=delay_s)
        except lost:
            again = True
            if memory is not None:
                memory.lost(cell_id, request.wait_s or 0.0)
            pause = patience.again_in()
            if pause is None:
                raise
        else:
            pause = _until_repeat(response, patience, memory, cell_id)
            if pause is None:
                return Sent(response, again)
        delay_s = pause


def always(request: Request) -> Callable[[bool], Request]:
    """What makes the same request each time."""
    return lambda _: request


def get(path: str, patience_s: float = 0.0) -> Flow[httpx.Response]:
    """A GET."""
    return (yield from persistently(always(Request("GET", path)), Patience(patience_s))).response


def _until_repeat(
    response: httpx.Response, patience: Patience, memory: CellMemory | None, cell_id: str
) -> float | None:
    """Seconds until a refusal may have passed; None for an answer that is final."""
    if response.is_success:
        return None
    refusal = answers.problem(response)
    if refusal.code in PASSING:
        return patience.again_in(refusal.fields.get("retry_after_s", 0))
    if refusal.code == "cell_busy" and memory is not None and memory.may_be_taken_for_pending(cell_id):
        return min(patience.pause(), _LONGEST_BUSY_S)
    return None
