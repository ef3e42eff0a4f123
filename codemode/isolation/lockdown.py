"""Puts up the kernel's walls: once in the zygote what its children inherit, then in each cell process the rest.

Each step is tried and none is trusted: `Confinement` is what was found afterwards. Off Linux nothing is
there to put up, and that is what is reported.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import resource
import select
import signal
import sys
from typing import Any, Final

from codemode.isolation import seccomp
from codemode.isolation.confinement import Confinement
from codemode.isolation.sandbox import is_linux

_PR_GET_DUMPABLE, _PR_SET_DUMPABLE, _PR_GET_SECCOMP = 3, 4, 21
_PR_SET_NO_NEW_PRIVS, _PR_GET_NO_NEW_PRIVS = 38, 39
_FILTERED: Final = 2  # what _PR_GET_SECCOMP says under a filter
_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000
_CAPABILITIES_V3: Final = 0x20080522
_NOBODY: Final = 65534

_libc: Final[Any] = ctypes.CDLL(None)


class Lockdown:
    """The walls of the processes that are forked from this one.

    `lifeline` is the reading end of a pipe that the service alone can write to, and never does.
    """

    def __init__(self, lifeline: int) -> None:
        self._lifeline = lifeline
        self._filter = b""
        self._network = _network()
        with contextlib.suppress(seccomp.Unsupported):
            self._filter = seccomp.program()

    # In the zygote

    def enter(self) -> None:
        """Take what children inherit: a network without interfaces, no new privileges, nothing to look into.

        Root needs no user namespace for it, and in one without a second user it could not become nobody.
        """
        if not is_linux():
            return
        _libc.unshare(_NEW_NETWORK if os.geteuid() == 0 else _NEW_USER | _NEW_NETWORK)
        if os.geteuid() != 0:
            _drop_capabilities()  # of the user namespace
        _prctl(_PR_SET_NO_NEW_PRIVS, 1)
        _prctl(_PR_SET_DUMPABLE, 0)

    # In a cell process, before it has a second thread

    def own_lifeline(self) -> int | None:
        """A descriptor of this process's own for the lifeline: the signal is a property of how it was opened."""
        with contextlib.suppress(OSError):
            return os.open(f"/proc/self/fd/{self._lifeline}", os.O_RDONLY | os.O_NONBLOCK)
        return None

    def step_down(self, lifeline: int | None) -> bool:
        """Become a user without rights; from now on the kernel ends this process when the service ends.

        Returns whether the latter is so. It is no matter of parents (PR_SET_PDEATHSIG): the
        zygote may be lost and replaced while its cells go on.
        """
        if not is_linux():
            return False
        if os.geteuid() == 0:
            with contextlib.suppress(OSError):  # in a container that has no such user
                os.setgroups([])
                os.setresgid(_NOBODY, _NOBODY, _NOBODY)
                os.setresuid(_NOBODY, _NOBODY, _NOBODY)
        _drop_capabilities()
        _prctl(_PR_SET_DUMPABLE, 0)  # a change of user has reset it
        return lifeline is not None and _end_at_the_end_of(lifeline)

    # Before the script, when the isolate is made

    def close(self, *, ends_with_service: bool) -> Confinement:
        """The last step: no new threads, processes or descriptors, and the filter; then what holds now."""
        if not is_linux():
            return Confinement()
        found = Confinement(
            no_new_privs=_prctl(_PR_GET_NO_NEW_PRIVS) == 1,
            unprivileged_user=os.geteuid() != 0 and os.getuid() != 0 and not _capabilities(),
            not_dumpable=_prctl(_PR_GET_DUMPABLE) == 0,
            ends_with_service=ends_with_service,
            network_namespace=_network() not in ("", self._network),
        )
        for limit in (resource.RLIMIT_NPROC, resource.RLIMIT_NOFILE):
            resource.setrlimit(limit, (0, 0))
        if self._filter:
            try:
                seccomp.load(self._filter)
            except OSError as problem:
                sys.stderr.write(f"the system-call filter cannot be loaded: {problem.strerror}\n")
            else:
                return found._replace(seccomp=_is_filtered())
        return found


def _end_at_the_end_of(lifeline: int) -> bool:
    try:
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, os.O_NONBLOCK | os.O_ASYNC)
    except OSError:
        return False
    if select.select([lifeline], [], [], 0)[0]:
        os._exit(0)  # it ended before the kernel was told whom to kill
    return True


def _is_filtered() -> bool:
    """By trying: asking for the parent's number is not on the list, and harmless."""
    return _prctl(_PR_GET_SECCOMP) == _FILTERED and os.getppid() == -1


def _prctl(option: int, value: int = 0) -> int:
    return int(_libc.prctl(*(ctypes.c_ulong(each) for each in (option, value, 0, 0, 0))))


def _drop_capabilities() -> None:
    _libc.capset((ctypes.c_uint32 * 2)(_CAPABILITIES_V3, 0), (ctypes.c_uint32 * 6)())


def _capabilities() -> bool:
    """Whether this process has any, or could take one."""
    sets = (ctypes.c_uint32 * 6)()
    if _libc.capget((ctypes.c_uint32 * 2)(_CAPABILITIES_V3, 0), sets) != 0:
        return True
    return any(sets)


def _network() -> str:
    with contextlib.suppress(OSError):
        return os.readlink("/proc/self/ns/net")  # noqa: PTH115 - on the way of every fork
    return ""
