"""The program that a session's commands are children of: it starts them, reaps them, and leaves none behind.

It stands alone, so that it starts quickly and holds nothing of the service; its one argument is the descriptor of its
control socket. Each message there is 4 bytes of length and a JSON object:

    in   {"do": "spawn", "id", "argv", "env", "tty"}   with the descriptors of folder, standard input and output
         {"do": "signal", "id", "signal"}              to the process group of a command that has not ended
         {"do": "end"}
    out  {"said": "forked", "id", "pid"}, then {"said": "spawned", "id"} or {"said": "failed", "id", "errno"}
         {"said": "exited", "id", "code"}              128 + N after signal N

When told to end, and when the socket closes since the service has ended or was killed, it kills every process that
descends from it, those that have made themselves daemons too, and ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import select
import signal
import socket
import struct
import sys
import termios
import time
from collections.abc import Callable
from typing import Any, Final, NoReturn

_CHUNK: Final = 65536
_DESCRIPTORS: Final = 3  # that come with one request to start something
_END_SECONDS: Final = 4.0  # for killing all: what is of another user or hangs in the kernel cannot be waited for
_PASS_SECONDS: Final = 0.003
_LENGTH: Final = struct.Struct(">I")
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_UNMOVED_BY: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


class Keeper:
    """One loop, one thread: what it knows of a process holds until it reaps it, so no number is ever mistaken."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._buffer = b""
        self._descriptors: list[int] = []  # of requests, in order; those of one may come before it is whole
        self._commands: dict[int, int] = {}  # pid → id, of those that are not reaped

    def run(self) -> None:
        """Work until told to end or until the socket closes. Raises OSError if it breaks."""
        woken, waking = os.pipe()
        os.set_blocking(woken, False)
        os.set_blocking(waking, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
        poll = select.poll()
        poll.register(woken, select.POLLIN)
        poll.register(self._control, select.POLLIN)
        while True:
            ready = [descriptor for descriptor, _ in poll.poll()]
            if woken in ready:
                os.read(woken, _CHUNK)
            if self._control.fileno() in ready and not self._read():
                return
            for pid, status in reaped():
                number = self._commands.pop(pid, None)
                if number is not None:  # else it was adopted
                    self._say(said="exited", id=number, code=exit_code(status))

    def end_all(self) -> None:
        """Kill all that descends from this process until nothing is left; gives up after some seconds."""
        deadline = time.monotonic() + _END_SECONDS
        for pid in self._commands:
            with contextlib.suppress(OSError):
                os.killpg(pid, signal.SIGKILL)
        while time.monotonic() < deadline:
            for pid, _ in reaped():
                self._commands.pop(pid, None)
            left = descendants()
            if not left:
                return
            for pid in left:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(_PASS_SECONDS)

    def _read(self) -> bool:
        data, descriptors, _, _ = socket.recv_fds(self._control, _CHUNK, _DESCRIPTORS)
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)  # they are when they come, and Python 3.11 has no way round it
        self._descriptors += descriptors
        self._buffer += data
        while len(self._buffer) >= _LENGTH.size:
            end = _LENGTH.size + _LENGTH.unpack_from(self._buffer)[0]
            if len(self._buffer) < end:
                break
            message, self._buffer = json.loads(self._buffer[_LENGTH.size : end]), self._buffer[end:]
            if message["do"] == "end":
                return False
            if message["do"] == "spawn":
                self._spawn(message)
            else:
                self._signal(message["id"], message["signal"])
        return bool(data)

    def _spawn(self, message: dict[str, Any]) -> None:
        given, self._descriptors = self._descriptors[:_DESCRIPTORS], self._descriptors[_DESCRIPTORS:]
        reading, writing = os.pipe()  # closes by itself when the command's program takes over
        try:
            pid = os.fork()
            if pid == 0:
                become(message, given, writing, self._say)
            os.close(writing)
            writing = -1
            problem = os.read(reading, _LENGTH.size)
            if problem:
                os.waitpid(pid, 0)
                self._say(said="failed", id=message["id"], errno=_LENGTH.unpack(problem)[0])
            else:
                self._commands[pid] = message["id"]
                self._say(said="spawned", id=message["id"])
        except BlockingIOError as refused:  # as many processes as there may be
            self._say(said="failed", id=message["id"], errno=refused.errno)
        finally:
            for descriptor in (*given, reading, writing):
                if descriptor >= 0:
                    os.close(descriptor)

    def _signal(self, number: int, wanted: int) -> None:
        for pid, each in self._commands.items():
            if each == number:
                with contextlib.suppress(OSError):
                    os.killpg(pid, wanted)

    def _say(self, **message: Any) -> None:
        data = json.dumps(message).encode()
        self._control.sendall(_LENGTH.pack(len(data)) + data)


def become(message: dict[str, Any], given: list[int], telling: int, say: Callable[..., None]) -> NoReturn:
    """In the new process: turn into the command, or write the number of the error to `telling`.

    Its group is told first, while the keeper waits and says nothing: the command may kill the keeper at once.
    Every other descriptor is closed by then, since all of this program close on exec.
    """
    try:
        folder, stdin, stdout = given
        os.setsid()
        say(said="forked", id=message["id"], pid=os.getpid())
        if message["tty"]:
            fcntl.ioctl(stdin, termios.TIOCSCTTY, 0)
        os.fchdir(folder)
        os.dup2(stdin, 0)
        os.dup2(stdout, 1)
        os.dup2(stdout, 2)
        signal.set_wakeup_fd(-1)
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)  # what is ignored would stay ignored
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.execve(message["argv"][0], message["argv"], message["env"])
    except OSError as problem:
        os.write(telling, _LENGTH.pack(problem.errno or 5))
    finally:
        os._exit(127)


def reaped() -> list[tuple[int, int]]:
    """The children that have ended, with their statuses: commands and adopted ones."""
    found: list[tuple[int, int]] = []
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            found.append((pid, status))
    return found


def exit_code(status: int) -> int:
    """A status as shells have it."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def descendants() -> list[int]:
    """Every process below this one, from /proc; empty where there is none."""
    children: dict[int, list[int]] = {}
    with contextlib.suppress(FileNotFoundError):
        for entry in os.scandir("/proc"):
            if entry.name.isdecimal():
                with contextlib.suppress(OSError, ValueError, IndexError):
                    children.setdefault(_parent(entry.name), []).append(int(entry.name))
    found = list(children.get(os.getpid(), ()))
    for pid in found:  # which grows meanwhile
        found += children.get(pid, ())
    return found


def _parent(name: str) -> int:
    descriptor = os.open(f"/proc/{name}/stat", os.O_RDONLY)
    try:
        text = os.read(descriptor, 4096)
    finally:
        os.close(descriptor)
    return int(text[text.rindex(b")") :].split()[2])  # the name before may hold anything


def main() -> None:
    """Run on the control socket that is named on the command line."""
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    for number in _UNMOVED_BY:
        signal.signal(number, signal.SIG_IGN)
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            prctl = ctypes.CDLL(None).prctl
            prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1), 0, 0, 0)
            # Stopped by a command, it goes on when the service ends, and so notices that.
            prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGCONT), 0, 0, 0)
    keeper = Keeper(control)
    try:
        with contextlib.suppress(OSError):
            keeper.run()
    finally:
        keeper.end_all()


if __name__ == "__main__":
    main()
