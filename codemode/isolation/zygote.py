"""The process that cell processes are forked from: V8 loaded and warmed up once, never an isolate alive.

Started with an empty environment and before any secret is read, single-threaded, so that a fork
is safe and finds nothing. On its control socket it takes one byte per wanted process; it answers
with messages of one size, `SPAWNED` (with the cell's socket and a descriptor of the process) and
`EXITED`. When the control socket closes it kills what it forked and ends.
"""

from __future__ import annotations

import codecs
import contextlib
import gc
import os
import resource
import select
import signal
import socket
import sys
import time
import traceback
from typing import Final

from codemode._bundled import bundled
from codemode.isolation import isolate, orphans, sandbox, worker
from codemode.isolation.confinement import Confinement
from codemode.isolation.lockdown import Lockdown
from codemode.isolation.wire import Decoder, ProtocolError
from codemode.isolation.zygote_messages import FAILED, REQUIRE, SPAWNED, STARTED, WANTED_AT_ONCE, Exit, message

# Loads the parts of ICU that scripts use most, and the time zone: a cell process may open no file.
_WARM_UP: Final = (
    "new Intl.DateTimeFormat().format(0); new Intl.NumberFormat().format(1.5); 'b'.localeCompare('a');"
    "new Date().getTimezoneOffset(); new Date().toString()"
)
_CODECS: Final = ("utf-16-le", "latin-1")  # of the ring; Python loads them from files when they are first used
_NICENESS: Final = 5  # busy scripts let the service come first
_NOT_CONFINED: Final = 71  # exit status
_TRIAL_TIMEOUT: Final = 10.0  # seconds
_MOST_TRIAL_FRAME: Final = 64  # its READY is much shorter
_OOM_MARKS: Final = (b"out of memory", b"Out of memory", b"Last few GCs", b"OOM")


class Zygote:
    """Forks and reaps. `errors` holds, per process, the read end of its standard error."""

    def __init__(self, control: socket.socket, lockdown: Lockdown, *, require_sandbox: bool) -> None:
        self.control = control
        self.lockdown = lockdown
        self.require_sandbox = require_sandbox
        self.errors: dict[int, int] = {}
        self.wakeup, wakeup_end = os.pipe()
        for end in (self.wakeup, wakeup_end):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(wakeup_end, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.own_memory = 0
        self.runtime: str = bundled("runtime_js").program(worker.PLACEHOLDER)
        self.stripper: str = bundled("runtime_js").stripper()  # text, which all children share

    def warm_up(self) -> None:
        """Make what all children share: V8's own start, the runtime compiled once, Python's caches."""
        warm = isolate.Isolate()
        warm.evaluate(self.runtime)
        warm.evaluate(_WARM_UP)
        warm.close()
        for name in _CODECS:
            codecs.lookup(name)
        gc.collect()
        gc.freeze()
        self.own_memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def run(self) -> None:
        poller = select.poll()
        poller.register(self.control, select.POLLIN)
        poller.register(self.wakeup, select.POLLIN)
        while True:
            for descriptor, _ in poller.poll():
                if descriptor == self.wakeup:
                    self.reap()
                else:
                    wanted = self.control.recv(64)
                    if not wanted:
                        return
                    for number in range(len(wanted)):
                        self.fork(at_once=wanted[number : number + 1] == WANTED_AT_ONCE)

    def trial(self) -> Confinement:
        """Fork a cell process that runs nothing, and learn which walls are around it; none if it does not come up.

        What it says besides, such as why it does not, goes to our standard error.
        """
        ours, theirs = socket.socketpair()
        errors, errors_end = os.pipe()
        lifeline = self.lockdown.open_lifeline()
        with ours, theirs:
            pid = os.fork()
            if pid == 0:
                self.become_cell(theirs, errors_end, lifeline, rehearse=False, required=False)
            os.close(errors_end)
            os.close(lifeline)
            theirs.close()
            ours.settimeout(_TRIAL_TIMEOUT)
            found = Confinement()
            with contextlib.suppress(OSError, ProtocolError):
                for _, payload in Decoder(_MOST_TRIAL_FRAME).feed(ours.recv(_MOST_TRIAL_FRAME)):
                    found = Confinement.decode(payload)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        self.errors[pid] = errors
        sys.stderr.write(self.last_words(pid).decode(errors="replace"))
        return found

    def fork(self, *, at_once: bool) -> None:
        try:
            with contextlib.ExitStack() as undo:  # no more descriptors, or no more processes
                ours, theirs = socket.socketpair()
                undo.callback(theirs.close)
                undo.callback(ours.close)
                errors, errors_end = os.pipe()
                for end in (errors, errors_end):
                    undo.callback(os.close, end)
                    os.set_blocking(end, False)
                lifeline = self.lockdown.open_lifeline()
                undo.callback(os.close, lifeline)
                pid = os.fork()
                undo.pop_all()
        except OSError:
            self.control.sendall(message(FAILED))
            return
        if pid == 0:
            self.become_cell(theirs, errors_end, lifeline, rehearse=not at_once, required=self.require_sandbox)
        os.close(errors_end)
        os.close(lifeline)
        self.errors[pid] = errors
        descriptors = [ours.fileno()]
        with contextlib.suppress(AttributeError, OSError):  # not on every platform
            descriptors.append(os.pidfd_open(pid))
        socket.send_fds(self.control, [message(SPAWNED, pid)], descriptors)
        for descriptor in descriptors[1:]:
            os.close(descriptor)
        ours.close()
        theirs.close()

    def become_cell(
        self, connection: socket.socket, errors: int, lifeline: int, *, rehearse: bool, required: bool
    ) -> None:
        """In the child: nothing open but the socket, the lifeline and the pipe for V8's last words. Never returns."""
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, 0)
            os.dup2(errors, 1)
            os.dup2(errors, 2)
            sandbox.close_all_but(0, 1, 2, connection.fileno(), lifeline)
            sandbox.limit_files()
            os.nice(_NICENESS)
            self.lockdown.step_down(lifeline)

            def confine() -> Confinement:
                found = self.lockdown.close()
                if required and found.required_missing():
                    os._exit(_NOT_CONFINED)
                return found

            worker.serve(connection, self.runtime, self.stripper, confine, rehearse=rehearse)
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(70)

    def reap(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self.wakeup, 4096)
        with contextlib.suppress(ChildProcessError):
            while self.reap_one():
                pass
        orphans.kill_strays(self.errors)

    def reap_one(self) -> bool:
        pid, status, usage = os.wait4(-1, os.WNOHANG)
        if pid in self.errors:  # and not something that a cell process had left behind
            cpu = int((usage.ru_utime + usage.ru_stime) * 1e6)
            said = self.last_words(pid)
            self.control.sendall(
                Exit(pid, status, cpu, self.grown(usage.ru_maxrss), any(mark in said for mark in _OOM_MARKS)).encode()
            )
        return pid != 0

    def grown(self, largest: int) -> int:
        """Bytes that a process came to hold beyond what it was forked with."""
        unit = 1 if sys.platform == "darwin" else 1024
        return max(0, (largest - self.own_memory) * unit)

    def last_words(self, pid: int) -> bytes:
        errors = self.errors.pop(pid)
        try:
            return os.read(errors, 1 << 16)
        except BlockingIOError:
            return b""
        finally:
            os.close(errors)

    def kill_all(self) -> None:
        for pid in self.errors:
            os.kill(pid, signal.SIGKILL)  # none was reaped, so no number can mean another process
        with contextlib.suppress(ChildProcessError):
            while True:  # until no child is left, nor what they had left behind
                os.waitpid(-1, 0)
                orphans.kill_strays(())


def main() -> None:
    """Run as `python -m codemode.isolation.zygote CONTROL LIFELINE [--require-sandbox]`, both of them descriptors."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    control = socket.socket(fileno=int(sys.argv[1]))
    orphans.wake_at_parents_end()
    orphans.adopt_orphans()
    sandbox.raise_file_limit()
    sandbox.end_first_without_memory()
    lockdown = Lockdown(int(sys.argv[2]))
    lockdown.enter()
    os.environ["TZ"] = "UTC"
    time.tzset()
    isolate.initialise()
    zygote = Zygote(control, lockdown, require_sandbox=REQUIRE in sys.argv)
    zygote.warm_up()
    os.chdir("/")
    try:
        control.sendall(message(STARTED, os.getpid(), zygote.trial().encode()[0]))
        zygote.run()
    except ConnectionError:
        pass  # the service is gone
    finally:
        zygote.kill_all()


if __name__ == "__main__":
    main()
