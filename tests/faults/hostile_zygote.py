"""Run as a program in the zygote's place: the real zygote, whose cell processes misbehave on demand.

Usage: python -m tests.faults.hostile_zygote SPARES ZYGOTE CONTROL LIFELINE

Its cell processes stand for ones that have been taken over where the kernel puts up no walls: they may fork and
send what they like.

A script whose source is `// hostile NAME` does not run in V8: the process does what `NAME` stands for in
hostile_acts.py. Every other script runs as usual. SPARES is NAME:COUNT, what the first COUNT processes do before
they are ready, or empty; ZYGOTE what the zygote itself does, see `main`, or empty.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import NoReturn

from codemode.isolation import lockdown, worker, zygote, zygote_messages
from codemode.isolation.confinement import Confinement
from tests.faults.hostile_acts import AFTER_START, BEFORE_READY, MARK, Misbehaviour


class HostileWorker(worker.Worker):
    """A worker that is taken over when its script starts."""

    def _start(self, payload: bytes) -> None:
        source = json.loads(payload)["source"]
        if not source.startswith(MARK):
            return super()._start(payload)
        self.act(AFTER_START[source.removeprefix(MARK)])

    def act(self, misbehaviour: Misbehaviour) -> NoReturn:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            misbehaviour(self)
            self.hang()
        os._exit(0)

    @property
    def connection(self) -> socket.socket:
        return self._socket

    def say(self, *frames: bytes) -> None:
        self._socket.sendall(b"".join(frames))

    def flood(self, piece: bytes, size: int = 1 << 16) -> NoReturn:
        """The same again and again, as fast as it is taken."""
        data = piece * max(1, size // len(piece))
        while True:
            self._socket.sendall(data)

    def hang(self) -> NoReturn:
        """Do nothing, hear nothing, obey nothing."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)
        while True:
            time.sleep(3600)

    def read_frame(self) -> tuple[int, bytes]:
        while True:
            for found in self._receive():
                return found


class HostileZygote(zygote.Zygote):
    """Counts its processes, so that the first ones can misbehave."""

    forks = 0

    def fork(self, *, at_once: bool) -> None:
        type(self).forks += 1
        super().fork(at_once=at_once)


class NoLockdown(lockdown.Lockdown):
    """The kernel of this machine has no walls."""

    def enter(self) -> None:
        pass

    def step_down(self, lifeline: int) -> None:
        pass

    def close(self) -> Confinement:
        return Confinement()


def main(spares: str, in_zygote: str, descriptor: str, lifeline: str) -> None:
    control = socket.socket(fileno=int(descriptor))
    if in_zygote == "silent":
        time.sleep(3600)
    elif in_zygote == "garbage":
        control.sendall(zygote_messages.message(zygote_messages.STARTED, os.getpid()))
        control.recv(10)
        control.sendall(b"\xff" * 100)
        time.sleep(3600)
    elif in_zygote == "spawns nobody":
        control.sendall(zygote_messages.message(zygote_messages.STARTED, os.getpid()))
        control.recv(10)
        control.sendall(zygote_messages.message(zygote_messages.SPAWNED, 0))
        time.sleep(3600)
    control.detach()
    name, _, count = spares.partition(":")
    serve = worker.Worker.run

    def run(self: worker.Worker, confine: Callable[[], Confinement], *, rehearse: bool) -> None:
        if name and 0 < HostileZygote.forks <= int(count):  # not the one that is forked for trial
            assert isinstance(self, HostileWorker)
            self.act(BEFORE_READY[name])
        serve(self, confine, rehearse=rehearse)

    HostileWorker.run = run  # type: ignore[method-assign]
    worker.Worker = HostileWorker  # type: ignore[misc]
    zygote.Zygote = HostileZygote  # type: ignore[misc]
    zygote.Lockdown = NoLockdown  # type: ignore[misc]
    sys.argv = [sys.argv[0], descriptor, lifeline]
    zygote.main()


if __name__ == "__main__":
    main(*sys.argv[1:])
