"""Following the events of a session or a cell: where to go on after a cut, and when it is over. Nothing here sends."""

from __future__ import annotations

import json
from typing import Any, Final

import httpx

from codemode.client import answers
from codemode.client.requests import Request, session_path

LOST: Final = (httpx.TimeoutException, httpx.NetworkError, httpx.RemoteProtocolError)
_HEARTBEAT_S: Final = 15.0  # the service says something at least so often
_FIRST_DELAY_S: Final = 0.05
_LONGEST_DELAY_S: Final = 2.0


class Following:
    """The state of it. `retries` is how often in a row nothing may come of an attempt."""

    def __init__(self, session_id: str, after: int, cell_id: str | None, retries: int) -> None:
        place = ("events",) if cell_id is None else ("cells", cell_id, "events")
        self._path = session_path(session_id, *place)
        self._last = after
        self._end = "session/deleted" if cell_id is None else "cell/ended"
        self._retries = retries
        self._in_vain = 0
        self.is_over = False

    def request(self) -> Request:
        """Ask for what comes after the last one."""
        delay = min(_FIRST_DELAY_S * 2 ** (self._in_vain - 1), _LONGEST_DELAY_S) if self._in_vain else 0.0
        headers = {"Last-Event-ID": str(self._last), "Accept": "text/event-stream"}
        return Request("GET", self._path, headers=headers, patience_s=_HEARTBEAT_S, delay_s=delay)

    def begins(self, response: httpx.Response) -> bool:
        """Whether events follow. Raises what a refusal says; its body has been read by then."""
        if response.status_code == 204:
            self.is_over = True
        elif response.status_code != 200:
            answers.read(response, lambda body: body)
        return response.status_code == 200

    def take(self, line: str) -> dict[str, Any] | None:
        """The event that a line of the stream is, if it is one."""
        if not line.startswith("data:"):
            return None
        event: dict[str, Any] = json.loads(line[5:])
        self._last, self._in_vain = event["seq"], 0
        self.is_over = event["type"] == self._end
        return event

    def cut(self, problem: Exception | None = None) -> None:
        """The stream has ended, perhaps by a `problem`, which is raised if that happens too often in a row."""
        self._in_vain += 1
        if self._in_vain > self._retries and not self.is_over:
            raise problem or httpx.RemoteProtocolError("the service ends the stream of events again and again")
