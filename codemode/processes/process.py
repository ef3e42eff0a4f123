"""One command as it runs: its output, what is typed into it, its end."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple

from codemode.errors import ToolError
from codemode.processes.head_tail import HeadTail
from codemode.processes.telling import Telling
from codemode.tools.command import Ending

UNREAD_BYTES: Final = 1024 * 1024
"""Output that waits for the next answer, the omitted middle not counted."""

AGGREGATED_BYTES: Final = 65_536
"""Output that is kept of the whole run."""

CTRL_C: Final = "\x03"

_CHUNK: Final = 65_536
_MUCH: Final = 4096  # who prints so much at once is read once a millisecond, and fills the pipe meanwhile
_PAUSE_SECONDS: Final = 0.001
_DRAIN_SECONDS: Final = 0.1  # for output after the exit, while processes that were left behind may hold the pipe open
_LAST_CHUNKS: Final = 16  # a pipe holds 1 MiB at most
_KILL_SECONDS: Final = 5.0  # then it counts as ended though the kernel does not let it go
_MOST_TYPED: Final = 65_536

Then = Callable[[Ending, Any], None]


class Origin(NamedTuple):
    """What a process is called, what was asked for, and by which call."""

    process_id: int
    command: str
    workdir: str  # as the caller gave it
    tty: bool
    turn_id: str | None
    cell_id: str | None
    tool_use_id: str


class Process:
    """A command that was asked for; it runs from the start of its keeper's child to `ending`.

    Made before it is started, with the reading end of its pipe or the master of its terminal, which is closed when
    it has ended. All is bounded, whatever it prints. `send` sends a signal to its process group.
    """

    def __init__(
        self,
        origin: Origin,
        output: int,
        send: Callable[[int], None],
        told: Callable[[Process, str], None] | None,
        over: Callable[[Process], None],
    ) -> None:
        self.process_id: int = origin.process_id
        self.command: str = origin.command
        self.workdir: str = origin.workdir
        self.tty: bool = origin.tty
        self.turn_id: str | None = origin.turn_id
        self.cell_id: str | None = origin.cell_id
        self.tool_use_id: str = origin.tool_use_id
        self.started_at: float = time.time()
        self.ended_at: float | None = None
        self.ending: Ending | None = None
        self.detached: bool = False
        self._began = time.monotonic()
        self._wall: float | None = None
        self._loop = asyncio.get_running_loop()
        self._output: int | None = output
        self._send = send
        self._over = over
        self._telling = Telling((lambda text: told(self, text)) if told is not None else (lambda _: None))
        self._unread = HeadTail(UNREAD_BYTES)
        self._all = HeadTail(AGGREGATED_BYTES)
        self._typed = bytearray()
        self._is_over = asyncio.Event()
        self._cause: Literal["timed_out", "cancelled"] | None = None
        self._exit: int | None = None
        self._last: asyncio.TimerHandle | None = None
        self._resume: asyncio.TimerHandle | None = None
        self._then: list[Then] = []
        os.set_blocking(output, False)
        self._listen()

    @property
    def wall_time_seconds(self) -> float:
        """From its start until now, or until its end."""
        return self._wall if self._wall is not None else time.monotonic() - self._began

    @property
    def aggregated(self) -> str:
        """What it has printed from its start on, in at most 64 KiB."""
        return self._all.text()

    @property
    def exit_code(self) -> int | None:
        """Its exit code if it has ended by itself or by a signal of another command."""
        return None if self.ending is None else self.ending.exit_code

    def take(self) -> str:
        """What it has printed since the last time, in at most 1 MiB."""
        return self._unread.take(final=self.ending is not None)

    def when_ended(self, then: Then) -> None:
        """Call `then` when it has ended, at once if it has: with the whole output, bounded, the time and the code."""
        if self.ending is None:
            self._then.append(then)
        else:
            then(self.ending, self._result(self.ending))

    async def wait(self, seconds: float | None) -> bool:
        """Wait for its end, so long at most; whether it has ended."""
        if self.ending is None and seconds != 0:
            try:
                async with asyncio.timeout(seconds):
                    await self._is_over.wait()
            except TimeoutError:
                pass
        return self.ending is not None

    def write(self, text: str) -> None:
        """Type into its terminal. Raises ToolError if it has none, or has not read what was typed before."""
        if not self.tty:
            raise ToolError(
                "write_stdin: the process has no terminal, its standard input is empty; start it with tty: true to "
                'type into it, or send "\\u0003" alone to interrupt it'
            )
        data = text.encode("utf-8", "replace")
        if len(self._typed) + len(data) > _MOST_TYPED:
            raise ToolError(f"write_stdin: more than {_MOST_TYPED} bytes would wait for the process, which reads none")
        self._typed += data
        self._type()

    def interrupt(self) -> None:
        """Ctrl-C: typed into its terminal, or SIGINT for its process group."""
        if self.tty:
            self.write(CTRL_C)
        else:
            self._send(signal.SIGINT)

    def kill(self, cause: Literal["timed_out", "cancelled"] = "cancelled") -> None:
        """End its process group. It has ended soon after, within 5 seconds at most; the first cause stays."""
        if self._last is None and self.ending is None:
            self._cause = cause
            self._last = self._loop.call_later(_KILL_SECONDS, self._finish)
            self._send(signal.SIGKILL)

    def exited(self, code: int | None) -> None:
        """Its keeper says that it has exited, or with None that nobody will ever know."""
        if self.ending is not None:
            return
        if self._last is not None:
            self._last.cancel()
        self._wall = time.monotonic() - self._began
        self._exit = code
        if code is None:
            self._cause = self._cause or "cancelled"
        if code is None or self._output is None:
            self._finish()
        else:
            self._last = self._loop.call_later(_DRAIN_SECONDS, self._finish)

    def _listen(self) -> None:
        self._resume = None
        if self._output is not None:
            self._loop.add_reader(self._output, self._read)

    def _read(self) -> None:
        """Take one piece of output, so that nobody else waits for long."""
        size = self._read_once()
        if size and size >= _MUCH and self._output is not None:
            self._loop.remove_reader(self._output)
            self._resume = self._loop.call_later(_PAUSE_SECONDS, self._listen)
        elif size == 0:
            self._close()
            if self._exit is not None:
                self._finish()

    def _read_once(self) -> int | None:
        """How many bytes were there: 0 at the end of the output, None if there are none at the moment."""
        if self._output is None:
            return 0
        try:
            data = os.read(self._output, _CHUNK)
        except BlockingIOError:
            return None
        except OSError:  # of a terminal that nobody holds open any more
            return 0
        if data:
            self._unread.add(data)
            self._all.add(data)
            self._telling.add(data)
        return len(data)

    def _type(self) -> None:
        if self._output is None:
            self._typed.clear()
            return
        try:
            del self._typed[: os.write(self._output, self._typed)]
        except BlockingIOError:
            pass
        except OSError:
            self._typed.clear()
        if self._typed:
            self._loop.add_writer(self._output, self._type)
        else:
            self._loop.remove_writer(self._output)

    def _finish(self) -> None:
        if self.ending is not None:
            return
        if self._last is not None:
            self._last.cancel()
        for _ in range(_LAST_CHUNKS):  # the loop may have had no time for them
            if not self._read_once():
                break
        self._close()
        self._wall = self.wall_time_seconds
        self.ended_at = time.time()
        self.ending = Ending("exited", self._exit) if self._cause is None else Ending(self._cause, None)
        self._telling.finish()
        self._is_over.set()
        self._over(self)
        then, self._then = self._then, []
        for each in then:
            each(self.ending, self._result(self.ending))

    def _close(self) -> None:
        if self._resume is not None:
            self._resume.cancel()
        if self._output is not None:
            self._loop.remove_reader(self._output)
            self._loop.remove_writer(self._output)
            os.close(self._output)
            self._output = None

    def _result(self, ending: Ending) -> dict[str, Any]:
        result = {
            "output": self.aggregated,
            "wall_time_seconds": self.wall_time_seconds,
            "exit_code": ending.exit_code,
        }
        return result | {"timed_out": True} if ending.state == "timed_out" else result
