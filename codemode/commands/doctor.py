"""`codemode doctor`: what this machine gives to the isolation of scripts, and whether a script runs here.

What it says of a cell process is read from a live one (codemode/isolation/walls.py).
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import os
import platform
import re
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Final

from pydantic_core import to_json

import codemode
from codemode.cells.observation import Observation
from codemode.commands.config import Settings
from codemode.commands.descriptors import connections_within, needed
from codemode.errors import CodeModeError
from codemode.isolation import sandbox
from codemode.isolation.confinement import Confinement
from codemode.isolation.walls import Wall, only_cell_process, walls_around
from codemode.limits import Limits
from codemode.sessions.session import Session

_ROOT: Final = Path(__file__).resolve().parents[2]
_ENGINE: Final = "from codemode.isolation import isolate; isolate.initialise(); print(isolate.engine_version())"
_ENGINE_TIMEOUT: Final = 20
_MARKS: Final = {True: "yes", False: "NO", None: "?"}
_SPEED_OF_END_MS: Final = 250  # promised: within this a busy loop has ended

_PROBE: Final = """
const named = ["console", "fetch", "process", "require", "WebAssembly", "SharedArrayBuffer", "XMLHttpRequest"];
const imported = await import("node:fs").then(() => "import", () => null);
const found = [...named.filter((name) => name in globalThis), imported].filter(Boolean);
text({sum: [1, 2, 3].reduce((a, b) => a + b), found});
"""
_BUSY: Final = "text('on'); while (true) {}"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that the self-test tried."""

    name: str
    passed: bool
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All that doctor found out."""

    codemode: str
    python: str
    platform: str
    engine: str | None
    dependencies: dict[str, str | None]
    isolation: list[Wall]
    limits: dict[str, int]
    file_descriptors: dict[str, int]
    self_test: list[Check]
    warnings: list[str]
    passed: bool


def doctor(settings: Settings, *, as_json: bool) -> int:
    """Examine this machine with the settings a service would have; 0 if the self-test passed, else 1."""
    report = asyncio.run(examine(settings))
    shown = to_json(report, indent=2).decode() + "\n" if as_json else "\n".join(_lines(report)) + "\n"
    sys.stdout.write(shown)
    return 0 if report.passed else 1


async def examine(settings: Settings) -> Report:
    """The report. Raises InvalidRequest for settings that cannot be."""
    limits = Limits.parse(settings.limits)
    dependencies = _dependencies()
    engine = await asyncio.to_thread(_engine_version)
    checks, walls = await _self_test(settings)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = {"soft": soft, "hard": hard, "needed": needed(limits.max_cells_server)}
    files["connections"] = connections_within(_most(files), limits.max_cells_server)
    return Report(
        codemode=codemode.__version__,
        python=f"{platform.python_version()} ({sys.executable})",
        platform=f"{platform.system()} {platform.release()} {platform.machine()}, {os.cpu_count()} processor(s)",
        engine=engine,
        dependencies=dependencies,
        isolation=walls,
        limits=limits.as_dict(),
        file_descriptors=files,
        self_test=checks,
        warnings=list(_warnings(files, limits, dependencies, walls)),
        passed=all(check.passed for check in checks),
    )


def _engine_version() -> str | None:
    """Asked of another process: V8 never runs in one of ours."""
    command = [sys.executable, "-c", _ENGINE]
    try:
        done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=_ENGINE_TIMEOUT, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _dependencies() -> dict[str, str | None]:
    """The versions of what we need at run time, None where it is missing."""
    try:
        required = importlib.metadata.requires("codemode") or []
    except importlib.metadata.PackageNotFoundError:
        return {}
    names = [re.split(r"[^\w.-]", each, maxsplit=1)[0] for each in required if "extra ==" not in each]
    return {name: _version(name) for name in names}


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


# The self-test


async def _self_test(settings: Settings) -> tuple[list[Check], list[Wall]]:
    """Run two scripts through the library, and look at the process of the second one."""
    began = time.monotonic()
    checks: list[Check] = []
    walls: list[Wall] = []
    try:
        async with replace(settings, spares=0).service() as service:
            started = _since(began)
            checks.append(Check("the service starts", True, f"in {started} ms"))
            session = service.create_session()
            checks += await _probe(session)
            check, walls = await _look_at_busy_cell(session, service.pool.confinement)
            checks.append(check)
    except CodeModeError as problem:
        if problem.code != "isolation_unavailable":
            raise
        checks.append(Check("the service starts", False, problem.detail))
    return checks, walls


async def _probe(session: Session) -> list[Check]:
    began = time.monotonic()
    seen = await session.exec(_PROBE)
    said = seen.output[0]["text"] if seen.status == "completed" and seen.output else ""
    found = re.fullmatch(r'\{"sum":6,"found":\[(.*)\]\}', said)
    return [
        Check("a script runs", found is not None, f"{_outcome(seen)} in {_since(began)} ms"),
        Check(
            "it finds no console, network, process or module",
            found is not None and not found[1],
            "nothing found" if found is not None and not found[1] else f"found {said or 'nothing: it did not run'}",
        ),
    ]


async def _look_at_busy_cell(session: Session, found: Confinement) -> tuple[Check, list[Wall]]:
    seen = await session.exec(_BUSY, yield_time_ms=0)
    cell_id, deadline = seen.cell_id, time.monotonic() + 5
    while seen.is_running and not seen.output and time.monotonic() < deadline:
        seen = await session.wait(cell_id, yield_time_ms=20)
    walls = walls_around(only_cell_process(os.getpid()), session.limits, found) if seen.is_running else []
    began = time.monotonic()
    ended = await session.terminate(cell_id)
    took = _since(began)
    passed = ended.status == "terminated" and took <= _SPEED_OF_END_MS
    return Check("a busy loop can be ended", passed, f"{_outcome(ended)} in {took} ms"), walls


def _outcome(seen: Observation) -> str:
    return seen.status if seen.error is None else f"{seen.status} ({seen.error.kind}: {seen.error.message})"


def _since(began: float) -> int:
    return round((time.monotonic() - began) * 1000)


# What is shown


def _most(files: dict[str, int]) -> int:
    """How many descriptors there may be, as far as they are needed."""
    return files["needed"] if files["hard"] == resource.RLIM_INFINITY else min(files["hard"], files["needed"])


def _warnings(
    files: dict[str, int], limits: Limits, dependencies: dict[str, str | None], walls: list[Wall]
) -> Iterator[str]:
    if _most(files) < files["needed"]:
        yield (
            f"at most {files['hard']} file descriptors may be open here; {limits.max_cells_server} live cells "
            f"(max_cells_server), connections and http tools may need {files['needed']}, so there will be "
            f"{files['connections']} connections at most: raise `ulimit -Hn`, or lower the limit"
        )
    if not sandbox.is_linux():
        yield "this is not Linux: cells have no walls of the kernel here; do not run scripts that nobody has read"
    elif missing := [wall.name for wall in walls if wall.active is False]:
        yield f"not all walls are there: {', '.join(missing)}; --require-sandbox says whether that matters"
    if os.geteuid() == 0:
        yield "the service runs as root, since you do (cells do not): run it as a user who owns nothing"
    for name, version in dependencies.items():
        if version is None:
            yield f"{name} is not installed"


def _lines(report: Report) -> Iterator[str]:
    """The report as text."""
    yield f"codemode {report.codemode}, V8 {report.engine or 'UNKNOWN: it could not be started'}"
    yield f"Python {report.python}"
    yield report.platform
    if report.isolation:
        yield from ("", "Isolation of a cell, as seen on a live one")
    for wall in report.isolation:
        yield f"  {_MARKS[wall.active]:4} {wall.name}: {wall.detail}"
    yield from ("", "Dependencies")
    yield "  " + ", ".join(f"{name} {version or 'MISSING'}" for name, version in report.dependencies.items())
    yield from ("", "Limits (--limit NAME=VALUE)")
    for spec in fields(Limits):
        unit, meaning = spec.metadata["unit"], spec.metadata["meaning"]
        yield f"  {spec.name:22} {report.limits[spec.name]:>10} {unit:9} {meaning}"
    yield from ("", "File descriptors")
    files = report.file_descriptors
    hard = "any number" if files["hard"] == resource.RLIM_INFINITY else files["hard"]
    yield f"  {hard} may be open; {files['needed']} are needed for as many cells as max_cells_server allows and 4096"
    yield f"  connections; there will be {files['connections']} connections at most"
    yield from ("", "Self-test")
    for check in report.self_test:
        yield f"  {'ok' if check.passed else 'FAILED':6} {check.name}: {check.detail}"
    yield from ("", *(f"Warning: {warning}" for warning in report.warnings))
    yield "The self-test passed." if report.passed else "The self-test FAILED."
