"""What native code in a cell process might try, each as one function. Standard library only: cells carry it.

`attempt` says {"refused": …, "how": …}. As a program it makes one attempt where nothing confines it, which shows that
the attempt would succeed:

    python -m tests.faults.native_attempts '{"name": "fork"}'
"""

from __future__ import annotations

import array
import ctypes
import errno
import json
import mmap
import os
import platform
import signal
import socket
import stat
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

MARK: Final = "//native "

_libc: Final = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
X86: Final = platform.machine() == "x86_64"

# Numbers on x86-64 and arm64. Above 424 they are the same.
NUMBERS: Final[Mapping[str, tuple[int | None, int | None]]] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "bind": (49, 200),
    "bpf": (321, 280),
    "capset": (126, 91),
    "chroot": (161, 51),
    "clock_getres": (229, 114),
    "clock_gettime": (228, 113),
    "clock_nanosleep": (230, 115),
    "clock_settime": (227, 112),
    "clone": (56, 220),
    "clone3": (435, 435),
    "close": (3, 57),
    "close_range": (436, 436),
    "connect": (42, 203),
    "creat": (85, None),
    "dup": (32, 23),
    "dup3": (292, 24),
    "epoll_create1": (291, 20),
    "eventfd2": (290, 19),
    "execve": (59, 221),
    "execveat": (322, 281),
    "fchmodat": (268, 53),
    "fcntl": (72, 25),
    "finit_module": (313, 273),
    "fork": (57, None),
    "futex": (202, 98),
    "futex_waitv": (449, 449),
    "fstat": (5, 80),
    "getppid": (110, 173),
    "inotify_init1": (294, 26),
    "io_uring_setup": (425, 425),
    "ioctl": (16, 29),
    "ioperm": (173, None),
    "iopl": (172, None),
    "ioprio_set": (251, 30),
    "kcmp": (312, 272),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "kill": (62, 129),
    "linkat": (265, 37),
    "madvise": (28, 233),
    "memfd_create": (319, 279),
    "mkdirat": (258, 34),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "mmap": (9, 222),
    "landlock_create_ruleset": (444, 444),
    "map_shadow_stack": (453, 453),
    "memfd_secret": (447, 447),
    "mlock": (149, 228),
    "mlockall": (151, 230),
    "mount": (165, 40),
    "move_pages": (279, 239),
    "mq_open": (240, 180),
    "msgget": (68, 186),
    "name_to_handle_at": (303, 264),
    "open": (2, None),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "openat": (257, 56),
    "openat2": (437, 437),
    "perf_event_open": (298, 241),
    "personality": (135, 92),
    "pidfd_getfd": (438, 438),
    "pidfd_open": (434, 434),
    "pidfd_send_signal": (424, 424),
    "pipe2": (293, 59),
    "pivot_root": (155, 41),
    "prctl": (157, 167),
    "prlimit64": (302, 261),
    "process_madvise": (440, 440),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "read": (0, 63),
    "readlinkat": (267, 78),
    "reboot": (169, 142),
    "recvfrom": (45, 207),
    "recvmsg": (47, 212),
    "renameat2": (316, 276),
    "request_key": (249, 218),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "rseq": (334, 293),
    "sched_getaffinity": (204, 123),
    "sched_setaffinity": (203, 122),
    "sched_setscheduler": (144, 119),
    "seccomp": (317, 277),
    "semget": (64, 190),
    "sendmsg": (46, 211),
    "sendto": (44, 206),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "setpriority": (141, 140),
    "setresuid": (117, 147),
    "setrlimit": (160, 164),
    "setuid": (105, 146),
    "shmget": (29, 194),
    "signalfd4": (289, 74),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "statx": (332, 291),
    "swapon": (167, 224),
    "symlinkat": (266, 36),
    "tgkill": (234, 131),
    "splice": (275, 76),
    "timer_create": (222, 107),
    "timerfd_create": (283, 85),
    "tkill": (200, 130),
    "umount2": (166, 39),
    "unlinkat": (263, 35),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
    "vfork": (58, None),
    "vmsplice": (278, 75),
    "write": (1, 64),
}
_AT_FDCWD = -100
_HERE = Any  # what an attempt is told: where the service is


class Refused(Exception):
    """With the name of the error."""


def call(name: str, *arguments: int | bytes | ctypes.Array[Any] | ctypes.Structure | None) -> int:
    """A system call by number. Raises Refused, with the error, when it fails."""
    number = NUMBERS[name][0 if X86 else 1]
    assert number is not None
    given = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    ctypes.set_errno(0)
    result = int(_libc.syscall(ctypes.c_long(number), *given))
    if result == -1:
        raise Refused(errno.errorcode.get(ctypes.get_errno(), "?"))
    return result


def machine_code(code: bytes) -> int:
    """Run it; what it leaves in rax."""
    every = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
    memory = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=every)
    memory.write(code)
    run = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))
    return int(run())


def _words(*values: int) -> ctypes.Array[Any]:
    return (ctypes.c_ulong * len(values))(*values)


def _address(port: int) -> bytes:
    return b"\x02\0" + port.to_bytes(2, "big") + bytes([127, 0, 0, 1]) + bytes(8)


def _read_memory(here: _HERE, name: str) -> int:
    space = ctypes.create_string_buffer(8)
    mine = _words(ctypes.addressof(space), 8)
    theirs = _words(here.get("address", 0x400000), 8)
    return call(name, here["service"], mine, 1, theirs, 1, 0)


def _kind(descriptor: int) -> int:
    """The type of what is open as this descriptor, 0 if nothing is; by the call that the filter allows."""
    space = ctypes.create_string_buffer(256)
    try:
        call("fstat", descriptor, space)
    except Refused:
        return 0
    at = 24 if X86 else 16  # of st_mode
    return stat.S_IFMT(int.from_bytes(space.raw[at : at + 4], "little"))


def _first(kind: int) -> int:
    """The first descriptor of a kind behind the standard ones."""
    return next((each for each in range(3, 64) if _kind(each) == kind), -1)


def _own_socket() -> int:
    return _first(stat.S_IFSOCK)


def _lifeline() -> int:
    return _first(stat.S_IFIFO)


def _foreign_descriptors() -> int:
    """One that is neither standard, nor the socket, nor the lifeline."""
    mine = {0, 1, 2, _own_socket(), _lifeline()}
    for descriptor in range(4096):
        if descriptor not in mine and _kind(descriptor):
            return descriptor
    raise Refused("there are none" if len(mine) == 5 and -1 not in mine else "no way to look")


def _message(descriptor: int) -> ctypes.Array[Any]:
    """A msghdr of one byte that carries a descriptor. What it points to is kept by the caller's frame."""
    body = ctypes.create_string_buffer(b"x")
    vector = _words(ctypes.addressof(body), 1)
    rights = ctypes.create_string_buffer(
        (20).to_bytes(8, "little") + array.array("i", [1, 1, descriptor, 0]).tobytes(), 24
    )
    header = _words(0, 0, ctypes.addressof(vector), 1, ctypes.addressof(rights), 24, 0)
    header.kept = (body, vector, rights)
    return header


def _clock_of(process: int) -> int:
    """The clock of the CPU time of a process: the C library's clock_getcpuclockid."""
    return (~process << 3 | 2) & 0xFFFFFFFF


def _more_memory(kind: int) -> Callable[[_HERE], int]:
    """A GiB of it: more than RLIMIT_DATA has room for, where that counts it."""
    return lambda here: call("mmap", 0, 1 << 30, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_ANONYMOUS | kind, -1, 0)


_pages: list[mmap.mmap] = []


def _page() -> int:
    """The address of a page of its own, which stays."""
    _pages.append(mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
    return ctypes.addressof(ctypes.c_char.from_buffer(_pages[-1]))


def _start_thread(_: _HERE) -> int:
    try:
        threading.Thread(target=int).start()
    except RuntimeError as problem:
        raise Refused(str(problem)) from None
    return 0


def _socket_and_connect(here: _HERE) -> int:
    descriptor = call("socket", socket.AF_INET, socket.SOCK_STREAM, 0)
    return call("connect", descriptor, _address(here["port"]), 16)


def _child(name: str, *arguments: int | None) -> int:
    """A call that returns twice; the child ends at once."""
    pid = call(name, *arguments)
    if pid == 0:
        os._exit(0)
    return pid


def _filter(here: _HERE) -> int:
    allow = ctypes.create_string_buffer(bytes([6, 0, 0, 0, 0, 0, 0xFF, 0x7F]))
    return call("seccomp", 1, 0, _words(1, ctypes.addressof(allow)))


def _raise_limit(limit: int) -> Callable[[_HERE], int]:
    return lambda here: call("prlimit64", 0, limit, _words(2**63, 2**63), None)


_READ_ONLY, _WRITE_CREATE = os.O_RDONLY, os.O_WRONLY | os.O_CREAT
_PATH = b"/tmp/codemode-escape"
_THREAD = 0x10F00  # CLONE_VM | FS | FILES | SIGHAND | THREAD

# Group → name → what is tried. Each raises Refused, or returns what it got.
ATTEMPTS: Final[dict[str, dict[str, Callable[[_HERE], Any]]]] = {
    "files": {
        "open to read": lambda here: call("openat", _AT_FDCWD, b"/etc/passwd", _READ_ONLY, 0),
        "open to write": lambda here: call("openat", _AT_FDCWD, _PATH, _WRITE_CREATE, 0o600),
        "open of a descriptor's folder": lambda here: call("openat", 0, b"../etc/passwd", _READ_ONLY, 0),
        "openat2": lambda here: call("openat2", _AT_FDCWD, b"/etc/passwd", _words(0, 0, 0), 24),
        "open_tree": lambda here: call("open_tree", _AT_FDCWD, b"/", 0),
        "open_by_handle_at": lambda here: call("open_by_handle_at", _AT_FDCWD, _words(0, 0, 0, 0), 0),
        "name_to_handle_at": lambda here: call("name_to_handle_at", _AT_FDCWD, b"/", _words(128, 0, 0), _words(0), 0),
        "statx": lambda here: call("statx", _AT_FDCWD, b"/etc/passwd", 0, 0x7FF, ctypes.create_string_buffer(256)),
        "readlinkat": lambda here: call(
            "readlinkat", _AT_FDCWD, b"/proc/self/exe", ctypes.create_string_buffer(256), 256
        ),
        "mkdirat": lambda here: call("mkdirat", _AT_FDCWD, _PATH, 0o700),
        "mknodat": lambda here: call("mknodat", _AT_FDCWD, _PATH, 0o020600, 0x101),
        "unlinkat": lambda here: call("unlinkat", _AT_FDCWD, _PATH, 0),
        "renameat2": lambda here: call("renameat2", _AT_FDCWD, _PATH, _AT_FDCWD, _PATH + b"2", 0),
        "linkat": lambda here: call("linkat", _AT_FDCWD, b"/etc/passwd", _AT_FDCWD, _PATH, 0),
        "symlinkat": lambda here: call("symlinkat", b"/etc/passwd", _AT_FDCWD, _PATH),
        "fchmodat": lambda here: call("fchmodat", _AT_FDCWD, b"/tmp", 0o777),
        "memfd_create": lambda here: call("memfd_create", b"x", 0),
        "mmap of a file": lambda here: call("mmap", 0, 4096, mmap.PROT_READ, mmap.MAP_PRIVATE, 0, 0),
    },
    "network": {
        "socket and connect to the service": _socket_and_connect,
        "connect with its own socket": lambda here: call("connect", _own_socket(), _address(here["port"]), 16),
        "bind": lambda here: call("bind", _own_socket(), _address(0), 16),
        "raw socket": lambda here: call("socket", socket.AF_PACKET, socket.SOCK_RAW, 0),
        "unix socket": lambda here: call("socket", socket.AF_UNIX, socket.SOCK_STREAM, 0),
        "netlink socket": lambda here: call("socket", 16, socket.SOCK_RAW, 0),
        "socketpair": lambda here: call("socketpair", socket.AF_UNIX, socket.SOCK_STREAM, 0, _words(0)),
        "sendto an address": lambda here: call("sendto", _own_socket(), b"x", 1, 0, _address(here["port"]), 16),
        "send out of band": lambda here: call("sendto", _own_socket(), b"x", 1, socket.MSG_OOB, None, 0),
        "receive out of band": lambda here: call(
            "recvfrom",
            _own_socket(),
            ctypes.create_string_buffer(8),
            8,
            socket.MSG_OOB | socket.MSG_DONTWAIT,
            None,
            None,
        ),
        "send without copying": lambda here: call("sendto", _own_socket(), b"x", 1, 0x4000000, None, 0),
        "send while connecting": lambda here: call("sendto", _own_socket(), b"x", 1, 0x20000000, None, 0),
        "send a descriptor": lambda here: call("sendmsg", _own_socket(), _message(_own_socket()), 0),
        "receive descriptors": lambda here: call("recvmsg", _own_socket(), _message(0), socket.MSG_DONTWAIT),
    },
    "memory": {
        "shared memory": _more_memory(mmap.MAP_SHARED),
        "memory that grows down": _more_memory(mmap.MAP_PRIVATE | 0x100),
        "droppable memory": _more_memory(8),
        "locked memory": _more_memory(mmap.MAP_PRIVATE | 0x2000),
        "huge pages": _more_memory(mmap.MAP_PRIVATE | 0x40000),
        "a terabyte to read": lambda here: call("mmap", 0, 1 << 40, mmap.PROT_READ, 0x4022, -1, 0),
        "a shadow stack": lambda here: call("map_shadow_stack", 0, 1 << 30, 0),
        "secret memory": lambda here: call("memfd_secret", 0),
        "mlock": lambda here: call("mlock", _page(), mmap.PAGESIZE),
        "mlockall": lambda here: call("mlockall", 2),
        "pages merged with those of others": lambda here: call("madvise", _page(), mmap.PAGESIZE, 12),
        "pages put out": lambda here: call("madvise", _page(), mmap.PAGESIZE, 21),
    },
    "processes and programs": {
        "clone": lambda here: _child("clone", signal.SIGCHLD, None, None, None, None),
        "clone of a thread": lambda here: call("clone", _THREAD, None, None, None, None),
        "clone3": lambda here: _child("clone3", _words(0, 0, 0, 0, 17, 0, 0, 0), 64),
        "a thread of Python": _start_thread,
        "execve": lambda here: call("execve", b"/bin/true", _words(0), _words(0)),
        "execveat": lambda here: call("execveat", _AT_FDCWD, b"/bin/true", _words(0), _words(0), 0),
    },
    "other processes": {
        "kill the parent": lambda here: call("kill", here["zygote"], signal.SIGKILL),
        "kill the service": lambda here: call("kill", here["service"], signal.SIGKILL),
        "kill another cell": lambda here: call("kill", here["other"], signal.SIGKILL),
        "kill all": lambda here: call("kill", -1, signal.SIGKILL),
        "signal 0 to the service": lambda here: call("kill", here["service"], 0),
        "tgkill the service": lambda here: call("tgkill", here["service"], here["service"], signal.SIGABRT),
        "tkill the service": lambda here: call("tkill", here["service"], signal.SIGKILL),
        "rt_sigqueueinfo": lambda here: call("rt_sigqueueinfo", here["service"], signal.SIGKILL, _words(*[0] * 16)),
        "rt_tgsigqueueinfo": lambda here: call(
            "rt_tgsigqueueinfo", here["service"], here["service"], signal.SIGKILL, _words(*[0] * 16)
        ),
        "pidfd_open": lambda here: call("pidfd_open", here["service"], 0),
        "pidfd_send_signal": lambda here: call("pidfd_send_signal", 3, signal.SIGKILL, None, 0),
        "pidfd_getfd": lambda here: call("pidfd_getfd", 3, 0, 0),
        "ptrace the parent": lambda here: call("ptrace", 16, here["zygote"], None, None),
        "ptrace the service": lambda here: call("ptrace", 0x4206, here["service"], None, None),
        "be traced": lambda here: call("ptrace", 0, 0, None, None),
        "process_vm_readv of the service": lambda here: _read_memory(here, "process_vm_readv"),
        "process_vm_writev of the service": lambda here: _read_memory(here, "process_vm_writev"),
        "open the parent's memory": lambda here: call(
            "openat", _AT_FDCWD, f"/proc/{here['zygote']}/mem".encode(), os.O_RDWR, 0
        ),
        "open the service's memory": lambda here: call(
            "openat", _AT_FDCWD, f"/proc/{here['service']}/mem".encode(), os.O_RDWR, 0
        ),
        "open its own memory": lambda here: call("openat", _AT_FDCWD, b"/proc/self/mem", os.O_RDWR, 0),
        "kcmp": lambda here: call("kcmp", here["service"], here["zygote"], 0, 0, 0),
        "process_madvise": lambda here: call("process_madvise", 3, None, 0, 0, 0),
        "move_pages": lambda here: call("move_pages", here["service"], 0, None, None, None, 0),
        "prlimit of the service": lambda here: call("prlimit64", here["service"], 7, _words(0, 0), None),
        "setpriority of the service": lambda here: call("setpriority", 0, here["service"], 19),
        "CPU time of the service": lambda here: call("clock_gettime", _clock_of(here["service"]), _words(0, 0)),
        "whether a process is there": lambda here: call("clock_getres", _clock_of(here["other"]), _words(0, 0)),
        "a timer on the service's CPU time": lambda here: call(
            "clock_nanosleep", _clock_of(here["service"]), 1, _words(0, 0), None
        ),
        "processors of the service": lambda here: call("sched_getaffinity", here["service"], 128, _words(*[0] * 16)),
        "scheduling of the service": lambda here: call("sched_setscheduler", here["service"], 5, _words(0)),
        "the parent's number": lambda here: call("getppid"),
    },
    "kernel": {
        "io_uring_setup": lambda here: call("io_uring_setup", 1, ctypes.create_string_buffer(120)),
        "bpf": lambda here: call("bpf", 0, ctypes.create_string_buffer(120), 120),
        "perf_event_open": lambda here: call("perf_event_open", ctypes.create_string_buffer(120), 0, -1, -1, 0),
        "userfaultfd": lambda here: call("userfaultfd", 1),
        "mount": lambda here: call("mount", b"x", b"/tmp", b"tmpfs", 0, None),
        "umount2": lambda here: call("umount2", b"/tmp", 0),
        "pivot_root": lambda here: call("pivot_root", b"/tmp", b"/tmp"),
        "chroot": lambda here: call("chroot", b"/tmp"),
        "unshare": lambda here: call("unshare", 0x10000000),
        "setns": lambda here: call("setns", 3, 0),
        "keyctl": lambda here: call("keyctl", 0, -3, 1),
        "add_key": lambda here: call("add_key", b"user", b"x", b"x", 1, -3),
        "request_key": lambda here: call("request_key", b"user", b"x", None, -3),
        "finit_module": lambda here: call("finit_module", 3, b"", 0),
        "kexec_load": lambda here: call("kexec_load", 0, 0, None, 0),
        "reboot": lambda here: call("reboot", 0, 0, 0, None),
        "swapon": lambda here: call("swapon", b"/tmp", 0),
        "acct": lambda here: call("acct", None),
        "sethostname": lambda here: call("sethostname", b"x", 1),
        "setdomainname": lambda here: call("setdomainname", b"x", 1),
        "clock_settime": lambda here: call("clock_settime", 0, _words(0, 0)),
        "ioctl on the null device": lambda here: call("ioctl", 0, 0x5401, ctypes.create_string_buffer(64)),
        "shmget": lambda here: call("shmget", 0, 4096, 0o1600),
        "semget": lambda here: call("semget", 0, 1, 0o1600),
        "msgget": lambda here: call("msgget", 0, 0o1600),
        "mq_open": lambda here: call("mq_open", b"x", os.O_CREAT | os.O_RDWR, 0o600, None),
        "inotify_init1": lambda here: call("inotify_init1", 0),
        "epoll_create1": lambda here: call("epoll_create1", 0),
        "eventfd2": lambda here: call("eventfd2", 0, 0),
        "signalfd4": lambda here: call("signalfd4", -1, _words(0), 8, 0),
        "timerfd_create": lambda here: call("timerfd_create", 1, 0),
        "pipe2": lambda here: call("pipe2", _words(0), 0),
        "personality": lambda here: call("personality", 0x0040000),
        "a futex with priorities": lambda here: call("futex", _words(0), 6, 0, None, None, 0),
        "requeuing to one": lambda here: call("futex", _words(0), 12, 1, 1, _words(0), 0),
        "futex_waitv": lambda here: call("futex_waitv", _words(0), 0, 0, None, 0),
        "timer_create": lambda here: call("timer_create", 1, None, _words(0)),
        "rseq": lambda here: call("rseq", ctypes.create_string_buffer(32), 32, 0, 0),
        "splice": lambda here: call("splice", 0, None, 1, None, 1, 0),
        "vmsplice": lambda here: call("vmsplice", 1, _words(0, 0), 0, 0),
        "landlock_create_ruleset": lambda here: call("landlock_create_ruleset", None, 0, 1),
        "poison a page": lambda here: call("madvise", 0x10000, 4096, 100),
    },
    "undoing its confinement": {
        "be dumpable again": lambda here: call("prctl", 4, 1, 0, 0, 0),
        "new privileges again": lambda here: call("prctl", 38, 0, 0, 0, 0),
        "seccomp off": lambda here: call("prctl", 22, 0, 0, 0, 0),
        "a seccomp filter of its own": _filter,
        "other memory descriptors": lambda here: call("prctl", 35, 1, 0, 0, 0),
        "capset": lambda here: call("capset", _words(0x20080522), _words(2**64 - 1, 2**64 - 1, 2**64 - 1)),
        "setuid 0": lambda here: call("setuid", 0),
        "setresuid 0": lambda here: call("setresuid", 0, 0, 0),
        "more memory": _raise_limit(2),
        "more address space": _raise_limit(9),
        "more CPU time": _raise_limit(0),
        "more descriptors": _raise_limit(7),
        "more processes": _raise_limit(6),
        "core dumps": _raise_limit(4),
        "files with contents": _raise_limit(1),
        "setrlimit of descriptors": lambda here: call("setrlimit", 7, _words(64, 64)),
        "better niceness": lambda here: call("setpriority", 0, 0, -20),
        "ioprio_set": lambda here: call("ioprio_set", 1, 0, 0),
        "sched_setaffinity": lambda here: call("sched_setaffinity", here["service"], 8, _words(1)),
    },
    "descriptors": {
        "one that is not its own": lambda here: _foreign_descriptors(),
        "read from the null device": lambda here: call("read", 0, ctypes.create_string_buffer(8), 8),
        "write to the null device": lambda here: call("write", 0, b"x", 1),
        "write to its socket by another way": lambda here: call("write", _own_socket(), b"x", 1),
        "read from the lifeline": lambda here: call("read", _lifeline(), ctypes.create_string_buffer(8), 8),
        "close the lifeline": lambda here: call("close", _lifeline()),
        "close all": lambda here: call("close_range", 0, 100, 0),
        "put another in the lifeline's place": lambda here: call("dup3", 0, _lifeline(), 0),
        "no signal from the lifeline": lambda here: call("fcntl", _lifeline(), 4, 0),
        "signals to the service": lambda here: call("fcntl", _lifeline(), 8, here["service"]),
        "dup": lambda here: call("dup", _own_socket()),
    },
}
if X86:  # calls that arm64 does not have, and other ways to call
    ATTEMPTS["files"] |= {
        "open": lambda here: call("open", b"/etc/passwd", 0, 0),
        "creat": lambda here: call("creat", _PATH, 0o600),
        "mknod": lambda here: call("mknod", _PATH, 0o010600, 0),
    }
    ATTEMPTS["processes and programs"] |= {
        "fork": lambda here: _child("fork"),
        "vfork": lambda here: _child("vfork"),
    }
    ATTEMPTS["kernel"] |= {
        "iopl": lambda here: call("iopl", 3),
        "ioperm": lambda here: call("ioperm", 0, 1, 1),
    }
    ATTEMPTS["other conventions of calling"] = {
        # mov eax, N; int 0x80; ret
        "32-bit getpid": lambda here: machine_code(b"\xb8\x14\0\0\0\xcd\x80\xc3"),
        "32-bit open": lambda here: machine_code(b"\xb8\x05\0\0\0\xcd\x80\xc3"),
        "32-bit write": lambda here: machine_code(b"\xb8\x04\0\0\0\xcd\x80\xc3"),
        # mov eax, 0x40000000 + N; syscall; ret
        "x32 getpid": lambda here: machine_code(b"\xb8\x27\0\0\x40\x0f\x05\xc3"),
        "x32 ptrace": lambda here: machine_code(b"\xb8\x09\x02\0\x40\x0f\x05\xc3"),
        "x32 execve": lambda here: machine_code(b"\xb8\x08\x02\0\x40\x0f\x05\xc3"),
    }

# Ways in which V8 and the C library end a process; they have to stay what they are.
ENDS: Final[dict[str, Callable[[], Any]]] = {
    "SIGABRT": os.abort,
    "SIGTRAP": lambda: machine_code(b"\xcc\xc3" if X86 else b"\0\0\x20\xd4"),
    "SIGSEGV": lambda: ctypes.string_at(1),
}


def attempt(told: dict[str, Any]) -> dict[str, Any]:
    """Try one, by its group and name. The other keys are what it is told."""
    if told["group"] == "ends":
        ENDS[told["name"]]()
    try:
        return {"refused": False, "how": f"it gave {ATTEMPTS[told['group']][told['name']](told)}"}
    except Refused as problem:
        return {"refused": True, "how": str(problem)}


if __name__ == "__main__":
    print(json.dumps(attempt(json.loads(sys.argv[1]))))
