"""Following the events of a session or a cell: where to go on after a cut, and when it is over. Nothing here sends."""

from __future__ import annotations

import json
from typing import Any, Final

import httpx

from codemode.client import answers
from codemode.client.patience import PASSING, Patience
from codemode.client.requests import Request, session_path
from codemode.errors import CodeModeError

_HEARTBEAT_S: Final = 15.0  # the service says something at least so often


class Following:
    """The state of it. Attempts may be in vain for `patience_s` from the first one after an event or a heartbeat."""

    def __init__(self, session_id: str, after: int, cell_id: str | None, patience_s: float) -> None:
        place = ("events",) if cell_id is None else ("cells", cell_id, "events")
        self._path = session_path(session_id, *place)
        self._last = after
        self._end = "session/deleted" if cell_id is None else "cell/ended"
        self._patience = Patience(patience_s)
        self._delay_s = 0.0
        self._refusal: CodeModeError | None = None
        self.is_over = False

    def request(self) -> Request:
        """Ask for what comes after the last one."""
        self._refusal = None
        headers = {"Last-Event-ID": str(self._last), "Accept": "text/event-stream"}
        return Request("GET", self._path, headers=headers, wait_s=_HEARTBEAT_S, delay_s=self._delay_s)

    def begins(self, response: httpx.Response) -> bool:
        """Whether events follow. Raises what a refusal says that does not pass; its body has been read by then."""
        if response.status_code == 204:
            self.is_over = True
        elif response.status_code != 200:
            self._refusal = answers.problem(response)
            if self._refusal.code not in PASSING:
                raise self._refusal
        return response.status_code == 200

    def take(self, line: str) -> dict[str, Any] | None:
        """The event that a line of the stream is, if it is one."""
        if not line.startswith(("data:", ":")):  # other lines come before it is known whether there is anything to say
            return None
        self._patience.all_is_well()
        if line.startswith(":"):
            return None
        event: dict[str, Any] = json.loads(line[5:])
        self._last = event["seq"]
        self.is_over = event["type"] == self._end
        return event

    def cut(self, problem: Exception | None = None) -> None:
        """The stream has ended, or there was none: for a refusal, or a `problem`. Raised when the patience ends."""
        if self.is_over:
            return
        asked_s = 0 if self._refusal is None else self._refusal.fields.get("retry_after_s", 0)
        pause = self._patience.again_in(asked_s)
        if pause is None:
            ended = httpx.RemoteProtocolError("the service ends the stream of events again and again")
            raise problem or self._refusal or ended
        self._delay_s = pause
