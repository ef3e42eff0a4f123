"""The system calls that a cell process may still make, as a filter that the kernel runs.

An allow-list: what is not named here fails with EPERM. A call of ours or of V8's that nobody thought
of then fails the way a call can fail, with a message, and a hostile one has been refused all the
same; killing would turn the first into a riddle and add nothing to the second. Only calls by another
convention (32-bit, x32) end the process: nothing honest makes them, and their numbers mean
other calls. The program is assembled once, before any fork, and loaded with a single call.
Standard library only: the cell process loads this module.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import signal
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

# Number on x86-64 and on arm64, from the kernel's asm/unistd_64.h and asm-generic/unistd.h.
SYSCALLS: Final[Mapping[str, tuple[int | None, int | None]]] = {
    "brk": (12, 214),
    "clock_getres": (229, 114),
    "clock_gettime": (228, 113),
    "clock_nanosleep": (230, 115),
    "exit": (60, 93),
    "exit_group": (231, 94),
    "fstat": (5, 80),
    "futex": (202, 98),
    "getpid": (39, 172),
    "getrandom": (318, 278),
    "getrlimit": (97, 163),
    "getrusage": (98, 165),
    "gettid": (186, 178),
    "gettimeofday": (96, 169),
    "madvise": (28, 233),
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "mremap": (25, 216),
    "munmap": (11, 215),
    "nanosleep": (35, 101),
    "pkey_mprotect": (329, 288),
    "poll": (7, None),
    "ppoll": (271, 73),
    "prctl": (157, 167),
    "prlimit64": (302, 261),
    "pselect6": (270, 72),
    "recvfrom": (45, 207),
    "restart_syscall": (219, 128),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sched_getaffinity": (204, 123),
    "sched_yield": (24, 124),
    "seccomp": (317, 277),  # to load the filter, which does not allow it
    "select": (23, None),
    "sendto": (44, 206),
    "setrlimit": (160, 164),
    "tgkill": (234, 131),
    "time": (201, None),
    "write": (1, 64),
}


class Condition(NamedTuple):
    """A call is allowed only if this word of its arguments, masked, is one of these values.

    Argument n is word 2n, its upper half word 2n + 1. The kernel looks at the lower half of an int alone.
    """

    word: int
    values: Sequence[int]
    mask: int = 0xFFFFFFFF


OWN_PID: Final = 0x7FFFFFF1  # stands for the process that loads the filter; no pid is so large
_OWN_MEMORY: Final = (
    0x22  # MAP_PRIVATE | MAP_ANONYMOUS: no file, and counted by RLIMIT_DATA, which shared memory is not
)
_MAP_DETAILS: Final = 0x13C050  # where, and when pages are made; not MAP_GROWSDOWN, _LOCKED, _HUGETLB
_ADVICE: Final = (0, 1, 2, 3, 4, 8, 10, 14, 15, 16, 17)  # not to merge pages with those of others, or to poison one
_FUTEX_DETAILS: Final = 0x180  # FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME
_FUTEX: Final = (
    0,
    1,
    3,
    4,
    5,
    9,
    10,
)  # to wait, wake and requeue; none that hands on priorities, or makes a descriptor
_MSG_DETAILS: Final = 0x4040  # MSG_NOSIGNAL | MSG_DONTWAIT; out-of-band data has been a way into the kernel
_PR_GET_SECCOMP: Final = 21
_SET_AT_START: Final = (resource.RLIMIT_CPU, resource.RLIMIT_DATA, resource.RLIMIT_AS)


def _nothing_but(details: int) -> int:
    """The mask for a word of flags of which these do not matter."""
    return ~details & 0xFFFFFFFF


# To or from the peer of the socket, nobody else.
_ON_ITS_SOCKET: Final = (Condition(6, (0,), _nothing_but(_MSG_DETAILS)), Condition(8, (0,)), Condition(9, (0,)))
_CLOCK: Final = (Condition(0, (0,), _nothing_but(0xF)),)  # the system's and its own, not those of other processes

ALLOWED: Final[Mapping[str, Sequence[Condition]]] = {
    # Memory, and code made at run time: V8 could do nothing without.
    "brk": (),
    "mmap": (Condition(6, (_OWN_MEMORY,), _nothing_but(_MAP_DETAILS)),),
    "mprotect": (),
    "pkey_mprotect": (),
    "mremap": (),
    "munmap": (),
    "madvise": (Condition(4, _ADVICE),),
    # Waiting, and waking the other thread.
    "futex": (Condition(2, _FUTEX, _nothing_but(_FUTEX_DETAILS)),),
    "sched_yield": (),
    "nanosleep": (),
    "clock_nanosleep": _CLOCK,
    "restart_syscall": (),  # goes on with a sleep after SIGSTOP and SIGCONT
    "poll": (),
    "ppoll": (),
    "select": (),
    "pselect6": (),
    # The socket, without descriptors riding along; V8's last words.
    "recvfrom": _ON_ITS_SOCKET,
    "sendto": _ON_ITS_SOCKET,
    "write": (Condition(0, (1, 2)),),
    "fstat": (),  # the C library asks before it writes to a stream
    # Clocks, numbers, ids.
    "clock_gettime": _CLOCK,
    "clock_getres": _CLOCK,
    "gettimeofday": (),
    "time": (),
    "getrandom": (),
    "getrusage": (),
    "getpid": (),
    "gettid": (),
    "sched_getaffinity": (Condition(0, (0, OWN_PID)),),
    "prctl": (Condition(0, (_PR_GET_SECCOMP,)),),
    # The limits of a script come with it, when the filter is on. Once set they cannot be raised.
    "getrlimit": (),
    "prlimit64": (Condition(0, (0, OWN_PID)), Condition(2, _SET_AT_START)),
    "setrlimit": (Condition(0, _SET_AT_START),),
    # The end: V8's abort sends a signal to its own process.
    "exit": (),
    "exit_group": (),
    "rt_sigaction": (),
    "rt_sigprocmask": (),
    "rt_sigreturn": (),
    "tgkill": (Condition(0, (OWN_PID,)), Condition(4, (signal.SIGABRT,))),
}


class Machine(NamedTuple):
    """A processor's convention of calling the kernel."""

    column: int  # in SYSCALLS
    audit_arch: int
    foreign_from: int | None  # numbers from here on are of another convention


MACHINES: Final = {
    "x86_64": Machine(0, 0xC000003E, 0x40000000),  # x32 has the same audit number
    "aarch64": Machine(1, 0xC00000B7, None),
}

_LOAD, _AND, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06  # operations of classic BPF
_NUMBER_AT, _ARCH_AT, _ARGUMENTS_AT = 0, 4, 16  # offsets in struct seccomp_data
_INSTRUCTION: Final = struct.Struct("<HBBI")
_WORD: Final = struct.Struct("<I")
_OWN_PID: Final = _WORD.pack(OWN_PID)
_FARTHEST: Final = 255  # a conditional jump goes no farther

KILL: Final = 0x80000000
REFUSE: Final = 0x00050000 | errno.EPERM
ALLOW: Final = 0x7FFF0000

_SET_MODE_FILTER: Final = 1
_TSYNC: Final = 1  # all threads of the process
_FAILED: Final = -1


class Unsupported(Exception):
    """There is no filter for this machine."""


def program(allowed: Mapping[str, Sequence[Condition]] = ALLOWED, machine: str | None = None) -> bytes:
    """The filter for a machine, this one by default. Raises Unsupported for one that it is not written for."""
    name = machine or this_machine()
    if name not in MACHINES:
        raise Unsupported(f"no system-call filter is written for {name}")
    column, audit_arch, foreign_from = MACHINES[name]
    code = [_op(_LOAD, _ARCH_AT), _op(_EQUAL, audit_arch, 1, 0), _op(_RETURN, KILL), _op(_LOAD, _NUMBER_AT)]
    if foreign_from is not None:
        code += [_op(_AT_LEAST, foreign_from, 0, 1), _op(_RETURN, KILL)]
    numbers = {call: number for call in allowed if (number := SYSCALLS[call][column]) is not None}
    for call, number in numbers.items():
        if allowed[call]:
            block = _block(allowed[call])
            code += [_op(_EQUAL, number, 0, len(block)), *block]
    free = [number for call, number in numbers.items() if not allowed[call]]
    # Short, since the kernel translates it for each process: all of these jump to the one instruction at the end.
    code += [_op(_EQUAL, number, len(free) - place, 0) for place, number in enumerate(free)]
    return b"".join([*code, _op(_RETURN, REFUSE), _op(_RETURN, ALLOW)])


def this_machine() -> str:
    """As the kernel names it; "32-bit" for a process of that kind."""
    return os.uname().machine if sys.maxsize > 2**32 else "32-bit"


def _block(conditions: Sequence[Condition]) -> list[bytes]:
    """Allow if every condition holds, else refuse. Never goes on behind itself."""
    block = [_op(_RETURN, ALLOW), _op(_RETURN, REFUSE)]
    for condition in reversed(conditions):
        block = [*_compare(condition, to_refusal=len(block) - 1), *block]
    return block


def _compare(condition: Condition, to_refusal: int) -> Iterator[bytes]:
    yield _op(_LOAD, _ARGUMENTS_AT + 4 * condition.word)
    if condition.mask != 0xFFFFFFFF:
        yield _op(_AND, condition.mask)
    *first, last = condition.values
    for left, value in zip(range(len(first), 0, -1), first, strict=True):
        yield _op(_EQUAL, value, left, 0)
    yield _op(_EQUAL, last, 0, to_refusal)


def _op(operation: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    assert max(if_true, if_false) <= _FARTHEST
    return _INSTRUCTION.pack(operation, if_true, if_false, value)


class _Program(ctypes.Structure):
    """struct sock_fprog"""

    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


class Filter:
    """A program, ready to be loaded. All that can be done before a fork is done when it is made.

    In a fresh fork each page that is touched is copied first: preparing there cost 0.3 ms, the call itself 0.1 ms.
    """

    def __init__(self, code: bytes) -> None:
        self._code = ctypes.create_string_buffer(code, len(code))
        self._program = _Program(len(code) // _INSTRUCTION.size, ctypes.addressof(self._code))
        self._own_pid_at = [at for at in range(0, len(code), _WORD.size) if code[at : at + _WORD.size] == _OWN_PID]
        column = MACHINES[this_machine()].column
        self._number = SYSCALLS["seccomp"][column]
        self._call: Any = ctypes.CDLL(None, use_errno=True).syscall
        self._call.argtypes = (ctypes.c_long, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_void_p)
        self._call.restype = ctypes.c_long
        self._call(SYSCALLS["getpid"][column], 0, 0, None)  # the first one prepares more
        self._address = ctypes.addressof(self._program)

    def load(self) -> None:
        """Put this process under it, all of its threads, for good; it needs no_new_privs. Raises OSError.

        OWN_PID comes to mean this process.
        """
        for at in self._own_pid_at:
            _WORD.pack_into(self._code, at, os.getpid())
        result = self._call(self._number, _SET_MODE_FILTER, _TSYNC, self._address)
        if result == _FAILED:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        if result:  # one thread could not follow, and nothing was loaded
            raise OSError(errno.EBUSY, f"thread {result} has a filter of its own")
