"""Puts up the kernel's walls: once in the zygote what its children inherit, then in each cell process the rest.

No step is taken as done: `Confinement` is what the process itself found, or the kernel answered. Off Linux
nothing is there to put up, and that is what is reported.
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
_CAP_KILL: Final = 1 << 5
_NOBODY: Final = 65534

# All of it is made before any fork: in a fresh one each page that is touched is copied first.
_libc: Final[Any] = ctypes.CDLL(None)
_capability_header: Final = (ctypes.c_uint32 * 2)(_CAPABILITIES_V3, 0)
_no_capabilities: Final = (ctypes.c_uint32 * 6)()
if is_linux():
    _libc.prctl.argtypes = (ctypes.c_int, *[ctypes.c_ulong] * 4)
    _libc.capset.argtypes = (ctypes.c_void_p, ctypes.c_void_p)


class Lockdown:
    """The walls of the processes that are forked from this one.

    `lifeline` is the reading end of a pipe that the service alone can write to, and never does.
    """

    def __init__(self, lifeline: int) -> None:
        self._lifeline = lifeline
        self._lifeline_path = f"/proc/self/fd/{lifeline}"
        self._becomes_nobody = is_linux() and os.geteuid() == 0 and _may_kill_anybody()
        self._filter: seccomp.Filter | None = None
        self._has_own_network = False
        self._found = Confinement()
        if is_linux():
            with contextlib.suppress(seccomp.Unsupported):
                self._filter = seccomp.Filter(seccomp.program())

    # In the zygote

    def enter(self) -> None:
        """Take what children inherit: a network without interfaces, no new privileges, nothing to look into.

        Root needs no user namespace for it, and in one without a second user it could not become nobody.
        """
        if not is_linux():
            return
        before = _network()
        _libc.unshare(_NEW_NETWORK if os.geteuid() == 0 else _NEW_USER | _NEW_NETWORK)
        self._has_own_network = _network() not in ("", before)
        if os.geteuid() != 0:
            _drop_capabilities()  # of the user namespace
        _prctl(_PR_SET_NO_NEW_PRIVS, 1)
        _prctl(_PR_SET_DUMPABLE, 0)

    def open_lifeline(self) -> int:
        """The lifeline opened for one child alone, as whom to signal belongs to what was opened. Raises OSError."""
        if not is_linux():
            return os.dup(self._lifeline)
        return os.open(self._lifeline_path, os.O_RDONLY | os.O_NONBLOCK)

    # In a cell process, before it has a second thread

    def step_down(self, lifeline: int) -> None:
        """Become a user without rights; from now on the kernel ends this process when the service ends.

        The latter is no matter of parents (PR_SET_PDEATHSIG): the zygote may be lost and replaced
        while its cells go on.
        """
        if not is_linux():
            return
        if self._becomes_nobody:
            with contextlib.suppress(OSError):  # in a container that has no such user
                os.setgroups([])
                os.setresgid(_NOBODY, _NOBODY, _NOBODY)
                os.setresuid(_NOBODY, _NOBODY, _NOBODY)
        has_rights = not _drop_capabilities() or 0 in os.getresuid()
        _prctl(_PR_SET_DUMPABLE, 0)  # a change of user has reset it
        self._found = Confinement(
            no_new_privs=_prctl(_PR_GET_NO_NEW_PRIVS) == 1,
            unprivileged_user=not has_rights,
            not_dumpable=_prctl(_PR_GET_DUMPABLE) == 0,
            ends_with_service=_end_at_the_end_of(lifeline),
            network_namespace=self._has_own_network,
        )

    # Before the script, when the isolate is made

    def close(self) -> Confinement:
        """The last step: no new threads, processes or descriptors, and the filter. What holds now."""
        if not is_linux():
            return Confinement()
        for limit in (resource.RLIMIT_NPROC, resource.RLIMIT_NOFILE):
            resource.setrlimit(limit, (0, 0))
        if self._filter is not None:
            try:
                self._filter.load()
            except OSError as problem:
                sys.stderr.write(f"the system-call filter cannot be loaded: {problem.strerror}\n")
            else:
                return self._found._replace(seccomp=_is_filtered())
        return self._found


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
    return int(_libc.prctl(option, value, 0, 0, 0))


def _drop_capabilities() -> bool:
    return int(_libc.capset(_capability_header, _no_capabilities)) == 0


def _may_kill_anybody() -> bool:
    """Root in a container may not be allowed to; then it could not end a process that has another user."""
    sets = (ctypes.c_uint32 * 6)()
    return int(_libc.capget(_capability_header, sets)) == 0 and bool(sets[0] & _CAP_KILL)


def _network() -> str:
    with contextlib.suppress(OSError):
        return os.readlink("/proc/self/ns/net")  # noqa: PTH115 - as text, to compare
    return ""
