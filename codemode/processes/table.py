"""The commands of one session: started within its workspace, found by number, ended with it."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import struct
import termios
from collections.abc import Callable, Iterator
from typing import Final

from codemode.errors import ToolError
from codemode.limits import Limits
from codemode.processes.environment import arguments, environment
from codemode.processes.keeper_link import KeeperLink, Order
from codemode.processes.process import Origin, Process
from codemode.workspace.paths import Refusal, Root, parse, refusals

FIRST_ID: Final = 1000
MOST_UNCOLLECTED: Final = 64
"""Processes that ended and whose end nobody was told; of more the oldest are forgotten."""

_WINDOW: Final = struct.pack("HHHH", 24, 80, 0, 0)  # rows and columns
_TOO_MANY_FILES: Final = (errno.EMFILE, errno.ENFILE)


class Processes:
    """All commands of one session. Numbers count up from `first` and are never used again.

    They are children of a keeper that is started with the first of them, and again when it was lost. `told` hears
    of output as it comes, as `Telling` has it. Belongs to one event loop.
    """

    def __init__(
        self, root: Root, limits: Limits, told: Callable[[Process, str], None] | None = None, first: int = FIRST_ID
    ) -> None:
        self.limits = limits
        self._root = root
        self._told = told
        self._next = first
        self._live: dict[int, Process] = {}
        self._uncollected: dict[int, Process] = {}
        self._forgotten: set[int] = set()  # of the live
        self._keeper: KeeperLink | None = None
        self._is_closed = False
        self._closing: asyncio.Task[None] | None = None

    @property
    def keeper_pid(self) -> int | None:
        """The keeper's process, once there is one."""
        return None if self._keeper is None else self._keeper.pid

    async def start(
        self,
        command: str,
        *,
        workdir: str = ".",
        shell: str | None = None,
        login: bool = False,
        tty: bool = False,
        turn_id: str | None = None,
        cell_id: str | None = None,
        tool_use_id: str,
    ) -> Process:
        """Start a command in a directory of the workspace.

        Raises ToolError for a directory outside or a shell that is not there, when as many run as may, when the
        machine cannot, and after close(). Cancelled, it leaves nothing that runs.
        """
        if self._is_closed:
            raise ToolError("the session has ended; no command is started any more")
        most = self.limits.max_processes_session
        if len(self._live) >= most:
            raise ToolError(
                f"the session has {len(self._live)} commands running, and may have {most}; wait for one of them to "
                'end, or interrupt it with write_stdin and "\\u0003"'
            )
        order = Order(arguments(command, shell, login=login), environment(tty=tty), tty)
        origin = Origin(self._next, command, workdir, tty, turn_id, cell_id, tool_use_id)
        with contextlib.ExitStack() as opened:
            folder = self._folder(workdir)
            opened.callback(os.close, folder)
            with _said():
                keeper = self._running_keeper()
                output, stdin, stdout = _terminal() if tty else _pipe()
            opened.pop_all()  # the process and the keeper's link close them from now on
        process = Process(
            origin, output, lambda wanted: keeper.signal(origin.process_id, wanted), self._told, self._ended
        )
        self._next += 1
        self._live[process.process_id] = process
        try:
            with _said():
                await keeper.spawn(process.process_id, order, (folder, stdin, stdout), process.exited)
        except asyncio.CancelledError:
            self.forget(process)
            process.kill()
            raise
        except ToolError:
            self.forget(process)
            raise
        return process

    def find(self, process_id: int) -> Process | None:
        """A process that runs, or that has ended and was not forgotten."""
        if process_id in self._forgotten:
            return None
        return self._live.get(process_id) or self._uncollected.get(process_id)

    def running(self) -> list[Process]:
        """Those that have not ended, those being started too, the oldest first."""
        return list(self._live.values())

    def forget(self, process: Process) -> None:
        """Its end is known, or of no interest: do not find it any more. While it runs, it counts as running."""
        self._uncollected.pop(process.process_id, None)
        if process.process_id in self._live:
            self._forgotten.add(process.process_id)

    async def close(self) -> None:
        """End all commands and whatever they left behind, in about 5 seconds at most; start none any more.

        Goes on to its end if it is cancelled. May be called again.
        """
        self._is_closed = True
        if self._closing is None:
            self._closing = asyncio.create_task(self._end())
        await asyncio.shield(self._closing)

    async def _end(self) -> None:
        for process in self.running():
            process.kill()
        if self._keeper is not None:
            await self._keeper.end()
        for process in self.running():
            process.exited(None)
        self._uncollected.clear()

    def _folder(self, workdir: str) -> int:
        """A descriptor of the directory: it is what was checked, whoever renames or links what meanwhile."""
        with refusals("workdir", workdir), self._root.opened(parse(workdir)) as place:
            if not place.is_folder:
                raise Refusal("is a file; give a directory")
            return os.dup(place.fd)

    def _running_keeper(self) -> KeeperLink:
        if self._keeper is None or self._keeper.is_lost():
            self._keeper = KeeperLink()
        return self._keeper

    def _ended(self, process: Process) -> None:
        del self._live[process.process_id]
        if process.process_id in self._forgotten:
            self._forgotten.remove(process.process_id)
            return
        self._uncollected[process.process_id] = process
        if len(self._uncollected) > MOST_UNCOLLECTED:
            del self._uncollected[next(iter(self._uncollected))]


@contextlib.contextmanager
def _said() -> Iterator[None]:
    """Turn what the machine refuses into the ToolError that a caller is shown; no path of the host is in it."""
    try:
        yield
    except ConnectionError:
        raise ToolError("the command was not started: what starts commands has ended meanwhile; try again") from None
    except OSError as problem:
        if problem.errno in _TOO_MANY_FILES:
            reason = "the service has too many files open; try again"
        elif problem.errno == errno.E2BIG:
            reason = "it is too long; write it into a file of the workspace and run that"
        else:
            reason = os.strerror(problem.errno or errno.EIO)
        raise ToolError(f"the command was not started: {reason}") from None


def _pipe() -> tuple[int, int, int]:
    """Our end, and the command's input and output. Input is empty: who reads it where nobody types must not wait."""
    stdin = os.open(os.devnull, os.O_RDONLY)
    try:
        output, stdout = os.pipe()
    except OSError:
        os.close(stdin)
        raise
    return output, stdin, stdout


def _terminal() -> tuple[int, int, int]:
    """The master of a new terminal, and the command's input and output, which are both its other end."""
    output, stdin = os.openpty()
    try:
        fcntl.ioctl(stdin, termios.TIOCSWINSZ, _WINDOW)
        return output, stdin, os.dup(stdin)
    except OSError:
        os.close(output)
        os.close(stdin)
        raise
