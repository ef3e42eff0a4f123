"""What confines a cell process, read from a live one: so it stays true when the code changes."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from codemode.isolation import sandbox
from codemode.limits import MIB, Limits


@dataclass(frozen=True, slots=True)
class Wall:
    """One thing that confines a cell; `active` is None where this machine does not tell."""

    name: str
    active: bool | None
    detail: str


def walls_around(pid: int | None, limits: Limits) -> list[Wall]:
    """What there is around the cell process `pid`; give None where processes cannot be looked at."""
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
        _seccomp(pid),
        _namespaces(pid),
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
    # The null device, a pipe for V8's last words (twice) and the socket.
    detail = f"environment {'empty' if empty else 'NOT empty'}, {open_files} descriptors: null, last words, its socket"
    return Wall("no environment, no open file", empty and open_files <= 4, detail)


def _seccomp(pid: int | None) -> Wall:
    pattern = r"^Seccomp_filters:\s+(\d+)"
    theirs, ours = (re.search(pattern, _proc(each, "status"), re.MULTILINE) for each in (pid, os.getpid()))
    if theirs is not None and ours is not None and int(theirs[1]) > int(ours[1]):
        return Wall("seccomp", True, "a filter of system calls is loaded")
    return Wall("seccomp", False, "not built yet in this version: the kernel would not stop code that breaks out of V8")


def _namespaces(pid: int | None) -> Wall:
    try:
        own = [name for name in ("net", "user", "pid", "mnt") if _namespace(pid, name) != _namespace("self", name)]
    except OSError:
        own = []
    if own:
        return Wall("namespaces", True, f"of its own: {', '.join(own)}")
    return Wall("namespaces", False, "not built yet in this version: a cell process shares the network of the service")


def _namespace(pid: int | str | None, name: str) -> Path:
    return Path(f"/proc/{pid}/ns/{name}").readlink()


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
