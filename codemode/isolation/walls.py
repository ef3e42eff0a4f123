"""What confines a cell process, read from a live one: so it stays true when the code changes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from codemode.isolation import sandbox
from codemode.isolation.confinement import Confinement
from codemode.limits import MIB, Limits

_OWN_FILES: Final = 5  # the null device, the pipe for V8's last words (twice), the socket, the lifeline
_FILTERED: Final = "2"  # in /proc/PID/status


@dataclass(frozen=True, slots=True)
class Wall:
    """One thing that confines a cell; `active` is None where this machine does not tell."""

    name: str
    active: bool | None
    detail: str


def walls_around(pid: int | None, limits: Limits, found: Confinement) -> list[Wall]:
    """What there is around the cell process `pid`, and what it `found` itself; None where none can be looked at."""
    linux = sandbox.is_linux()
    forked = "one for each script, forked from a warmed process; it never runs a second script"
    return [
        Wall("process of its own", True, forked),
        Wall("engine", True, "V8 without file system, network, processes or modules; its one way out is `tools`"),
        _rlimit(pid, "memory wall", "Max data size", f"memory_mb={limits.memory_mb}", linux),
        _rlimit(pid, "CPU limit", "Max cpu time", f"cpu_ms={limits.cpu_ms}", True),
        _rlimit(pid, "no core dumps", "Max core file size", "", True),
        _rlimit(pid, "no writing to files", "Max file size", "", True),
        _no_environment(pid),
        *_told(pid, found),
    ]


def _rlimit(pid: int | None, name: str, row: str, of_limit: str, expected: bool) -> Wall:
    found = re.search(rf"^{row}\s+(\S+)", _proc(pid, "limits"), re.MULTILINE)
    if found is None:
        said = "set by setrlimit, not seen from here" if expected else "needs Linux (RLIMIT_DATA)"
        return Wall(name, None if expected else False, said)
    value = found[1]
    if value.isdecimal() and row == "Max data size":
        value = f"{int(value) // MIB} MiB with what V8 reserves at its start"
    elif value.isdecimal() and row == "Max cpu time":
        value = f"{value} s; the cell itself looks first"
    return Wall(name, value != "unlimited", f"{value}, from {of_limit}" if of_limit else f"at most {value} bytes")


def _no_environment(pid: int | None) -> Wall:
    path = Path(f"/proc/{pid}")
    try:
        empty = not (path / "environ").read_bytes()
        open_files = len(list((path / "fd").iterdir()))
    except OSError:
        return Wall("no environment, no open file", None, "so by construction, not seen from here")
    detail = (
        f"environment {'empty' if empty else 'NOT empty'}, {open_files} descriptors: null, last words, socket, lifeline"
    )
    return Wall("no environment, no open file", empty and open_files <= _OWN_FILES, detail)


def _told(pid: int | None, found: Confinement) -> Iterator[Wall]:
    """What the process found out about itself, since nobody else may look into it; seccomp is also seen from here."""
    seen = re.search(r"^Seccomp:\s+(\d)", _proc(pid, "status"), re.MULTILINE)
    seccomp = found.seccomp and (seen is None or seen[1] == _FILTERED)
    for name, active, well, ill in (
        ("seccomp", seccomp, "a list of allowed system calls; one that is not on it was tried", "no filter was loaded"),
        ("no new privileges", found.no_new_privs, "no_new_privs is set", "no_new_privs is not set"),
        ("user without rights", found.unprivileged_user, "not root, no capability", "root, or with capabilities"),
        ("not to be looked into", found.not_dumpable, "not dumpable", "dumpable: the same user may trace it"),
        ("ends with the service", found.ends_with_service, "by a signal of the kernel", "if it notices by itself"),
        ("network of its own", found.network_namespace, "a namespace with no interface up", "the service's network"),
    ):
        yield Wall(name, active if pid is not None else None, well if active else ill)


def _proc(pid: int | None, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def only_cell_process(service: int) -> int | None:
    """The one live cell of a service: its child is the process that cells are forked from, and that has one child."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text(errors="replace").rpartition(")")[2].split()[1])
        except (OSError, IndexError, ValueError):
            continue  # it ended just now
    grandchildren = [pid for pid, parent in parents.items() if parents.get(parent) == service]
    return grandchildren[0] if len(grandchildren) == 1 else None
