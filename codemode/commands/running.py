"""`codemode run`: one script in this process, without a server. Its output goes out as it comes."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from pydantic_core import to_json

from codemode.cells.cell import Cell
from codemode.cells.observation import ErrorKind, Notification, Observation, model_output
from codemode.cells.source import Directive, read_directive
from codemode.commands.config import Settings
from codemode.commands.screen import OutputLost, Screen, shown
from codemode.errors import CodeModeError, InvalidRequest, SandboxUnavailable
from codemode.limits import Limits
from codemode.service import CodeMode
from codemode.sessions.session import Session

SCRIPT_FAILED: Final = 1
LIMIT_REACHED: Final = 3
CRASHED: Final = 4
EXIT_STATUS: Final[dict[ErrorKind, int]] = {
    "script_error": SCRIPT_FAILED,
    "syntax_error": SCRIPT_FAILED,
    "deadlock": SCRIPT_FAILED,
    "out_of_memory": LIMIT_REACHED,
    "cpu_limit": LIMIT_REACHED,
    "deadline": LIMIT_REACHED,
    "output_limit": LIMIT_REACHED,
    "tool_call_limit": LIMIT_REACHED,
    "worker_crashed": CRASHED,
    "server_restarted": CRASHED,
}
_BROKEN_PIPE: Final = 128 + signal.SIGPIPE  # as a shell names it
_BY_SIGNAL: Final = 128

_TICK_MS: Final = 50  # how long output waits for more of it
_EVERYTHING: Final = 2**53 - 1  # tokens: all output is shown
# Limits that would lose output of a script that has one reader, a slow one perhaps. What the user sets comes after.
_PATIENT: Final = (f"max_output_tokens={_EVERYTHING}", "idle_ms=315360000000")
_KEPT: Final = "keep_ms=3600000"  # the end is asked for twice


def run(settings: Settings, file: str, *, as_json: bool) -> int:
    """Run the script in `file` ("-": standard input) and show what it hands over; the exit status.

    All output is shown, so the yield time and the budget of a first-line directive mean nothing here.
    Raises InvalidRequest, InvalidSource or SandboxUnavailable if the script cannot be run at all.
    """
    if sys.stdout is None:
        raise InvalidRequest("standard output is closed")
    most = Limits.parse(settings.limits).max_source_bytes
    source = _read(file, most)
    if read_directive(source, most) != Directive():  # a wrong one is an error
        source = source.replace("@exec:", "@exec ", 1)  # a plain comment of the same length
    spares = 0 if settings.spares is None else settings.spares
    limits = [*_PATIENT, *settings.limits, _KEPT]
    service = replace(settings, limits=limits, spares=spares).service()
    try:
        return asyncio.run(_Run(service, source, as_json).to_its_end())
    except CodeModeError as problem:
        if problem.code != "isolation_unavailable" or isinstance(problem, SandboxUnavailable):
            raise
        sys.stderr.write(f"codemode: {problem.detail}\n")
        return CRASHED
    except OutputLost as problem:
        if problem.number == errno.EPIPE:  # whoever read the output has gone, as `head` does
            return _BROKEN_PIPE
        raise InvalidRequest(f"the output cannot be written: {os.strerror(problem.number)}") from problem


def _read(file: str, most: int) -> str:
    try:
        if file == "-":
            data = b"" if sys.stdin is None else sys.stdin.buffer.read(most + 1)
        else:
            with Path(file).open("rb") as stream:
                data = stream.read(most + 1)
    except OSError as problem:
        raise InvalidRequest(f"cannot read {file}: {problem.strerror}") from problem
    if len(data) > most:
        raise InvalidRequest(f"{file} is longer than {most} bytes (see --limit max_source_bytes)")
    try:
        return data.decode()
    except UnicodeDecodeError as problem:
        raise InvalidRequest(f"{file} is not UTF-8: byte {problem.start + 1} cannot be read") from None


class _Run:
    """One script from its start to its end."""

    def __init__(self, service: CodeMode, source: str, as_json: bool) -> None:
        self._service = service
        self._source = source
        self._as_json = as_json
        self._screen = Screen()
        self._signal: signal.Signals | None = None
        self._notifications: list[Notification] = []

    async def to_its_end(self) -> int:
        """Run it and show it; the exit status."""
        async with self._service as service:
            with self._signals(), self._screen.logging():
                session = service.create_session()
                seen = await session.exec(self._source, yield_time_ms=0, max_output_tokens=_EVERYTHING)
                cell = session.cell(seen.cell_id)
                assert isinstance(cell, Cell)
                await self._show(seen)
                while seen.is_running:
                    self._screen.progress(cell)
                    stop = self._signal is not None
                    seen = await session.wait(
                        cell.cell_id, yield_time_ms=_TICK_MS, max_tokens=_EVERYTHING, terminate=stop
                    )
                    await self._show(seen)
                if self._as_json:
                    await self._screen.put(to_json(await self._whole(session, cell)) + b"\n")
        return self._status(seen)

    async def _whole(self, session: Session, cell: Cell) -> Observation:
        """The observation that one call with enough patience would have got."""
        end = await session.wait(cell.cell_id, after=0, max_tokens=_EVERYTHING)
        wall_ms = end.usage.wall_ms
        shown_to_model = model_output(end.status, end.cell_id, wall_ms, end.output, end.error, None)
        return replace(end, wall_time_ms=wall_ms, notifications=self._notifications, model_output=shown_to_model)

    async def _show(self, seen: Observation) -> None:
        if self._as_json:
            self._notifications += seen.notifications
            self._screen.erase()
            return
        if seen.output:
            await self._screen.put_text("".join(f"{shown(item)}\n" for item in seen.output))
        for notification in seen.notifications:
            self._screen.note(notification.text)
        if seen.is_running:
            return
        for warning in seen.warnings:
            self._screen.note(f"warning: {warning}")
        if seen.error is not None:
            self._screen.note(seen.error.text)
        elif seen.status == "terminated":
            self._screen.note("Script terminated")
        self._screen.erase()

    def _status(self, seen: Observation) -> int:
        if seen.error is not None:
            return EXIT_STATUS[seen.error.kind]
        if seen.status == "terminated":
            return _BY_SIGNAL + (self._signal or signal.SIGINT)
        return 0

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """The first SIGINT or SIGTERM ends the cell, so that its output so far is shown; a second one ends us."""
        loop = asyncio.get_running_loop()

        def told(number: signal.Signals) -> None:
            self._signal = number
            for each in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(each)
                signal.signal(each, signal.SIG_DFL)

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, told, number)
        yield
