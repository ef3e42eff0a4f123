"""The service's side of one keeper: its start, the requests to it, its loss, its end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import signal
import socket
import struct
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from codemode.processes.environment import MARK, kill_marked

_PROGRAM: Final = Path(__file__).with_name("keeper.py")
_LENGTH: Final = struct.Struct(">I")
_CHUNK: Final = 65536
_ANSWER_SECONDS: Final = 15.0  # for the start of a command, and of the keeper before it
_END_SECONDS: Final = 4.5  # a little more than the keeper takes at most
_REAP_SECONDS: Final = 0.5
_LOOK_SECONDS: Final = 1.0

Ended = Callable[[int | None], None]


class Order(NamedTuple):
    """A command to start: the arguments, its program's absolute path first, and its whole environment."""

    arguments: Sequence[str]
    environment: Mapping[str, str]
    tty: bool  # standard input becomes its controlling terminal


class KeeperLink:
    """One keeper, started at once. Raises OSError if it cannot be.

    One that was stopped goes on within a second. One that ended, or that does not answer, is lost: it is killed, and
    with it the process groups of its commands as far as they are known, and what else shows that it is of them.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._mark = secrets.token_hex(16)
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                self._process = subprocess.Popen(
                    # -X utf8: arguments come out as they went in, whatever the locale is.
                    [sys.executable, "-I", "-S", "-X", "utf8", str(_PROGRAM), str(theirs.fileno())],
                    cwd="/",
                    env={},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                )
        except BaseException:
            ours.close()
            raise
        ours.setblocking(False)
        self._socket: socket.socket | None = ours
        self._buffer = b""
        self._unsent: deque[tuple[bytes, Sequence[int]]] = deque()
        self._answers: dict[int, asyncio.Future[None]] = {}
        self._ended: dict[int, Ended] = {}
        self._groups: dict[int, int] = {}
        self._reaped: asyncio.Future[int] | None = None
        self._gone: asyncio.Future[None] = self._loop.create_future()
        self._tick: asyncio.TimerHandle | None = None
        self._is_ending = False
        self._loop.add_reader(ours.fileno(), self._read)

    @property
    def pid(self) -> int:
        """The keeper's process."""
        return self._process.pid

    def is_lost(self) -> bool:
        """Whether it does no more work, as far as can be seen at this moment."""
        self._read()
        return self._socket is None

    async def spawn(self, number: int, order: Order, descriptors: Sequence[int], ended: Ended) -> None:
        """Start a command that is called `number` from now on, with folder, standard input and standard output.

        The descriptors are closed here, whatever happens. `ended` is called exactly once: with the exit code, or
        with None when it never started or when the keeper is lost. Raises OSError if it cannot be started,
        ConnectionError if the keeper is lost. When this is cancelled, the command may run: send it SIGKILL.
        """
        answer = self._answers[number] = self._loop.create_future()
        self._ended[number] = ended
        env = {**order.environment, MARK: self._mark}
        message = {"do": "spawn", "id": number, "argv": order.arguments, "env": env, "tty": order.tty}
        self._send(message, descriptors)
        self._look()
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                await answer
        except TimeoutError:
            self._lose()
            raise ConnectionError("it does not answer") from None
        finally:
            self._answers.pop(number, None)

    def signal(self, number: int, wanted: int) -> None:
        """Send a signal to the process group of a command, unless it has ended."""
        if number in self._ended:
            self._send({"do": "signal", "id": number, "signal": wanted})

    async def end(self) -> None:
        """End all its commands and all they have left behind, and the keeper; takes about 5 seconds at most."""
        self._is_ending = True
        self._send({"do": "end"})
        self._go_on()
        try:
            async with asyncio.timeout(_END_SECONDS):
                await asyncio.shield(self._gone)
        except TimeoutError:
            self._is_ending = False
            self._lose()
        if self._reaped is not None:
            await asyncio.wait([self._reaped], timeout=_REAP_SECONDS)

    def _send(self, message: Mapping[str, Any], descriptors: Sequence[int] = ()) -> None:
        data = json.dumps(message).encode()
        self._unsent.append((_LENGTH.pack(len(data)) + data, descriptors))
        if self._socket is None:
            self._lose()
        elif len(self._unsent) == 1:
            self._flush()

    def _flush(self) -> None:
        while self._unsent and self._socket is not None:
            data, descriptors = self._unsent[0]
            try:
                sent = socket.send_fds(self._socket, [data], descriptors) if descriptors else self._socket.send(data)
            except BlockingIOError:
                self._loop.add_writer(self._socket.fileno(), self._flush)
                return
            except OSError:  # it is gone
                self._lose()
                return
            _close(descriptors)
            self._unsent[0] = (data[sent:], ())
            if sent == len(data):
                self._unsent.popleft()
        if self._socket is not None:
            self._loop.remove_writer(self._socket.fileno())

    def _read(self) -> None:
        if self._socket is None:
            return
        try:
            data = self._socket.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lose()
            return
        self._buffer += data
        while len(self._buffer) >= _LENGTH.size:
            end = _LENGTH.size + _LENGTH.unpack_from(self._buffer)[0]
            if len(self._buffer) < end:
                break
            message, self._buffer = json.loads(self._buffer[_LENGTH.size : end]), self._buffer[end:]
            self._take(message)

    def _take(self, message: Mapping[str, Any]) -> None:
        number = message["id"]
        answer = self._answers.get(number)
        if message["said"] == "forked":
            self._groups[number] = message["pid"]
        elif message["said"] == "spawned":
            if answer is not None and not answer.done():
                answer.set_result(None)
        elif message["said"] == "failed":
            if answer is not None and not answer.done():
                answer.set_exception(OSError(message["errno"], os.strerror(message["errno"])))
            self._groups.pop(number, None)
            self._ended.pop(number)(None)
        else:
            self._groups.pop(number, None)
            self._ended.pop(number)(message["code"])

    def _clear_up(self) -> int:
        """On a thread: wait for the keeper's end, and kill what it should have killed."""
        status = self._process.wait()
        if status != 0:  # else it came to its own end
            kill_marked(self._mark)
        return status

    def _look(self) -> None:
        """Let it go on if a command has stopped it, as long as there is something to hear of."""
        if self._tick is not None:
            self._tick.cancel()
        self._tick = None
        if self._socket is None or not self._ended:
            return
        with contextlib.suppress(OSError):
            if os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None:
                self._go_on()
        self._tick = self._loop.call_later(_LOOK_SECONDS, self._look)

    def _go_on(self) -> None:
        if self._reaped is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGCONT)

    def _lose(self) -> None:
        if self._socket is not None:
            self._loop.remove_reader(self._socket.fileno())
            self._loop.remove_writer(self._socket.fileno())
            self._socket.close()
            self._socket = None
        if self._tick is not None:
            self._tick.cancel()
        if self._reaped is None:
            self._process.kill()
            self._reaped = self._loop.run_in_executor(None, self._clear_up)
            if not self._is_ending:
                for group in self._groups.values():
                    with contextlib.suppress(OSError):
                        os.killpg(group, signal.SIGKILL)
        for _, descriptors in self._unsent:
            _close(descriptors)
        self._unsent.clear()
        for number, answer in self._answers.items():
            if answer.done():
                continue
            if number in self._groups:  # it may have run: that it was never started would not be true
                answer.set_result(None)
            else:
                answer.set_exception(ConnectionError("it ended"))
        ended, self._ended = self._ended, {}
        self._groups.clear()
        for then in ended.values():
            then(None)
        if not self._gone.done():
            self._gone.set_result(None)


def _close(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
