"""The filter of system calls, run here as the kernel would run it, for both processors."""

from __future__ import annotations

import re
import resource
import signal
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codemode.isolation.confinement import Confinement
from codemode.isolation.seccomp import (
    ALLOW,
    ALLOWED,
    KILL,
    MACHINES,
    OWN_PID,
    REFUSE,
    SYSCALLS,
    Condition,
    Unsupported,
    program,
)
from codemode.isolation.wire import ProtocolError

X86_ONLY = {"poll", "select", "time"}
NOT_ALLOWED = {"seccomp"}
HEADERS = {
    "x86_64": (Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"), r"__NR_(\w+) (\d+)"),
    "aarch64": (Path("/usr/include/asm-generic/unistd.h"), r"__NR(?:3264)?_(\w+) (\d+)"),
}
EACH_MACHINE = pytest.mark.parametrize("machine", MACHINES)


def verdict(machine: str, number: int, arguments: Sequence[int] = (), arch: int | None = None) -> int:
    """What the kernel does with a call: a small machine for classic BPF, of the operations we use."""
    words = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("<IIQ6Q", number, MACHINES[machine].audit_arch if arch is None else arch, 0, *words)
    code = list(struct.iter_unpack("<HBBI", program(machine=machine)))
    accumulator = at = 0
    while True:
        operation, if_true, if_false, value = code[at]
        at += 1
        match operation:
            case 0x20:
                (accumulator,) = struct.unpack_from("<I", data, value)
            case 0x54:
                accumulator &= value
            case 0x15:
                at += if_true if accumulator == value else if_false
            case 0x35:
                at += if_true if accumulator >= value else if_false
            case 0x06:
                return int(value)
            case _:
                raise AssertionError(f"operation {operation:#x}")


def number_of(machine: str, name: str) -> int:
    number = SYSCALLS[name][MACHINES[machine].column]
    assert number is not None
    return number


def fitting(conditions: Sequence[Condition]) -> list[int]:
    """Arguments that fulfil the conditions."""
    arguments = [0] * 6
    for condition in conditions:
        arguments[condition.word // 2] |= condition.values[-1] << 32 * (condition.word % 2)
    return arguments


def names(machine: str) -> list[str]:
    return [name for name in ALLOWED if machine == "x86_64" or name not in X86_ONLY]


def test_every_allowed_call_has_its_numbers() -> None:
    """On both processors, but for those that arm64 does not have."""
    assert set(ALLOWED) == set(SYSCALLS) - NOT_ALLOWED
    missing = [{name for name, numbers in SYSCALLS.items() if numbers[column] is None} for column in (0, 1)]
    assert missing == [set(), X86_ONLY]


@EACH_MACHINE
def test_numbers_are_the_kernels(machine: str) -> None:
    """As its headers have them, where they are installed."""
    path, pattern = HEADERS[machine]
    if not path.exists():
        pytest.skip("the kernel's headers are not installed")
    theirs = {name: int(number) for name, number in re.findall(pattern, path.read_text())}
    column = MACHINES[machine].column
    ours = {name: numbers[column] for name, numbers in SYSCALLS.items() if numbers[column] is not None}
    assert {name: theirs.get(name) for name in ours} == ours


@EACH_MACHINE
def test_what_is_on_the_list_is_allowed_and_nothing_else(machine: str) -> None:
    """Every number there is, with arguments that fit if there are such; what is not on the list fails with EPERM."""
    allowed = {number_of(machine, name): fitting(ALLOWED[name]) for name in names(machine)}
    seen = {number for number in range(1024) if verdict(machine, number, allowed.get(number, ())) == ALLOW}
    assert seen == set(allowed)
    assert {verdict(machine, number) for number in range(1024) if number not in allowed} == {REFUSE}


@EACH_MACHINE
def test_other_conventions_end_the_process(machine: str) -> None:
    """The other processor's, 32-bit x86 and ARM; and x32, which shares the number of x86-64."""
    getpid = number_of(machine, "getpid")
    others = {0x40000003, 0x40000028, *(each.audit_arch for each in MACHINES.values())} - {MACHINES[machine].audit_arch}
    assert {verdict(machine, getpid, arch=arch) for arch in others} == {KILL}
    x32 = {verdict(machine, 0x40000000 + number) for number in range(600)} | {verdict(machine, 0xFFFFFFFF)}
    assert x32 == ({KILL} if machine == "x86_64" else {REFUSE})


@EACH_MACHINE
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("mmap", (0, 4096, 1, 2, 0, 0)),  # of a file
        ("mmap", (0, 4096, 3, 0x21, 0, 0)),  # shared
        ("mmap", (0, 4096, 3, 0x23, 0, 0)),
        ("mmap", (0, 4096, 3, 0x28, 0, 0)),  # droppable
        ("mmap", (0, 4096, 3, 0x122, 0, 0)),  # grows down
        ("mmap", (0, 4096, 3, 0x2022, 0, 0)),  # locked
        ("mmap", (0, 4096, 3, 0x40022, 0, 0)),  # huge pages
        ("madvise", (0, 4096, 12)),  # MADV_MERGEABLE
        ("madvise", (0, 4096, 21)),  # MADV_PAGEOUT
        ("madvise", (0, 4096, 100)),  # MADV_HWPOISON
        ("madvise", (0, 4096, 0xFFFFFFFF)),
        ("write", (0, 0, 1)),
        ("write", (3, 0, 1)),
        ("sendto", (3, 0, 1, 0, 0x1000)),
        ("sendto", (3, 0, 1, 0, 0x1_0000_0000)),  # an address above 4 GiB
        ("recvfrom", (3, 0, 1, 0, 0x1_0000_0000)),
        ("sendto", (3, 0, 1, 1)),  # out of band
        ("sendto", (3, 0, 1, 0x20000000)),  # MSG_FASTOPEN
        ("sendto", (3, 0, 1, 0x4000000)),  # MSG_ZEROCOPY
        ("recvfrom", (3, 0, 1, 1)),
        ("recvfrom", (3, 0, 1, 0x41)),
        ("futex", (0, 2)),  # FUTEX_FD
        ("futex", (0, 6)),  # FUTEX_LOCK_PI
        ("futex", (0, 0x80 | 7)),
        ("futex", (0, 0x180 | 11)),  # FUTEX_WAIT_REQUEUE_PI
        ("futex", (0, 12)),
        ("futex", (0, 13)),
        ("clock_gettime", (0xFFFFFFFFFFFFFFFA,)),  # of another process
        ("clock_getres", (0xFFFFFFFA,)),
        ("clock_nanosleep", (0xFFFFFFFA,)),
        ("clock_gettime", (16,)),
        ("tgkill", (1, 1, signal.SIGABRT)),
        ("tgkill", (OWN_PID, OWN_PID, signal.SIGKILL)),
        ("tgkill", (0xFFFFFFFF, 1, signal.SIGABRT)),
        ("prctl", (4, 1)),
        ("prctl", (38, 0)),
        ("prlimit64", (1, resource.RLIMIT_DATA)),
        ("prlimit64", (0, resource.RLIMIT_NOFILE)),
        ("setrlimit", (resource.RLIMIT_NPROC,)),
        ("sched_getaffinity", (1,)),
    ],
)
def test_arguments_are_looked_at(machine: str, name: str, arguments: tuple[int, ...]) -> None:
    """A call on the list with these arguments is refused."""
    assert verdict(machine, number_of(machine, name), arguments) == REFUSE


@EACH_MACHINE
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("mmap", (0, 4096, 0, 0x4022, 0xFFFFFFFF)),  # V8's, with MAP_NORESERVE
        ("mmap", (4096, 4096, 3, 0x32, 0xFFFFFFFF)),  # MAP_FIXED
        ("mmap", (0, 4096, 0, 0x20022, 0xFFFFFFFF)),  # MAP_STACK
        ("madvise", (0, 4096, 4)),
        ("madvise", (0, 4096, 8)),
        ("futex", (0, 0x80)),
        ("futex", (0, 0x81)),
        ("futex", (0, 0x189)),
        ("futex", (0, 0x8A)),
        ("sendto", (3, 0, 1, 0)),
        ("sendto", (3, 0, 1, 0x4000)),
        ("recvfrom", (3, 0, 1, 0x40)),
        *[("clock_gettime", (clock,)) for clock in (0, 1, 2, 3, 7)],
    ],
)
def test_what_the_engine_and_python_do_is_allowed(machine: str, name: str, arguments: tuple[int, ...]) -> None:
    """As they were seen to call, and as other C libraries do."""
    assert verdict(machine, number_of(machine, name), arguments) == ALLOW


@EACH_MACHINE
def test_its_own_number_stands_only_where_it_is_replaced(machine: str) -> None:
    """Loading puts the process's number in the place of OWN_PID: there are as many places as conditions that say so."""
    said = sum(OWN_PID in condition.values for name in names(machine) for condition in ALLOWED[name])
    assert program(machine=machine).count(struct.pack("<I", OWN_PID)) == said


def test_another_machine_has_no_filter() -> None:
    """It is not guessed at."""
    with pytest.raises(Unsupported, match="riscv64"):
        program(machine="riscv64")


@given(st.tuples(*[st.booleans()] * len(Confinement._fields)))
def test_confinement_comes_back_as_it_went(holds: tuple[bool, ...]) -> None:
    """Through the one byte of a READY frame; and its parts are all of it."""
    found = Confinement(*holds)
    assert Confinement.decode(found.encode()) == found
    assert sorted([*found.active(), *found.missing()]) == sorted(Confinement._fields)
    assert set(found.required_missing()) == set(found.missing()) - {"network_namespace"}


@pytest.mark.parametrize("payload", [b"", b"\0\0", b"\x40", b"\xff"])
def test_confinement_that_makes_no_sense_is_a_breach(payload: bytes) -> None:
    """Another size, or a wall that nobody knows."""
    with pytest.raises(ProtocolError):
        Confinement.decode(payload)
