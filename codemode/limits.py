"""The limits of a server and of a session, in one table.

The defaults are those of the contract with users; each is settable as `--limit NAME=VALUE` and, at most as high as
the server's, in a session's `limits`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from codemode.errors import InvalidRequest

MIB = 1024 * 1024
STORED_VALUE_BYTES = 64  # what a stored value counts beside its key and text, so that their number is bounded too
_MOST_DIGITS = 16
_MOST_OF_ALL = 2**53 - 1
_MOST = {"MiB": 2**24}


def _limit(default: int, unit: str, meaning: str, *, least: int = 1, server_only: bool = False) -> Any:
    return field(
        default=default, metadata={"unit": unit, "meaning": meaning, "least": least, "server_only": server_only}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """All limits with their defaults. Bytes are UTF-8 bytes, times are milliseconds."""

    max_source_bytes: int = _limit(MIB, "bytes", "length of a script")
    max_tool_input_bytes: int = _limit(MIB, "bytes", "JSON length of one nested call's input")
    max_tool_result_bytes: int = _limit(8 * MIB, "bytes", "JSON length of one nested call's result")
    max_store_bytes: int = _limit(4 * MIB, "bytes", "JSON length of all stored values of a session", least=0)
    memory_mb: int = _limit(256, "MiB", "memory of a cell, buffers outside the JavaScript heap included", least=16)
    cpu_ms: int = _limit(60_000, "ms", "CPU time of a cell")
    lifetime_ms: int = _limit(3_600_000, "ms", "wall time of a cell from its start to its end")
    max_undelivered_bytes: int = _limit(8 * MIB, "bytes", "output a cell may write while nobody waits for it")
    max_output_bytes: int = _limit(64 * MIB, "bytes", "output of a cell in all")
    max_output_tokens: int = _limit(100_000, "tokens", "ceiling of a caller's output budget", least=0)
    max_tool_calls: int = _limit(4096, "calls", "nested calls of a cell", least=0)
    max_in_flight: int = _limit(64, "calls", "nested calls of a session that run at once")
    max_processes_session: int = _limit(64, "processes", "commands of a session that run at once", least=0)
    user_shell_ms: int = _limit(3_600_000, "ms", "wall time of a command that a person runs beside the scripts")
    approval_ms: int = _limit(3_600_000, "ms", "how long a call waits for a person's decision; then it is declined")
    max_cells_session: int = _limit(64, "cells", "live cells of a session")
    max_cells_server: int = _limit(512, "cells", "live cells of the server", server_only=True)
    max_sessions_key: int = _limit(64, "sessions", "sessions of a tenant", server_only=True)
    max_cells_key: int = _limit(512, "cells", "live cells of a tenant", server_only=True)
    execs_per_minute_key: int = _limit(60_000, "execs", "execs of a tenant in a minute", server_only=True)
    max_followers_key: int = _limit(256, "streams", "event streams of a tenant that are open at once", server_only=True)
    idle_ms: int = _limit(900_000, "ms", "how long a running cell may go without anybody waiting for it")
    max_kept_bytes: int = _limit(256 * MIB, "bytes", "ended cells of a session, their output included", least=0)
    keep_ms: int = _limit(900_000, "ms", "how long an ended cell stays known", least=0)
    session_idle_ms: int = _limit(
        604_800_000, "ms", "how long a session stays that nobody uses and in which nothing runs", server_only=True
    )
    keep_events_ms: int = _limit(
        86_400_000, "ms", "how long events stay in the data directory", least=0, server_only=True
    )
    max_journal_mb: int = _limit(1024, "MiB", "size of the journal in the data directory", server_only=True)

    def __post_init__(self) -> None:
        """Raises InvalidRequest for a value that is no whole number or too small to make sense."""
        for name, spec in _SPECS.items():
            value, least = getattr(self, name), spec.metadata["least"]
            if type(value) is not int:
                raise InvalidRequest(f"limit {name}: expected a whole number, got {value!r}")
            if value < least:
                raise InvalidRequest(f"limit {name} is {value}; it has to be at least {least}")
            if value > _MOST.get(spec.metadata["unit"], _MOST_OF_ALL):
                raise InvalidRequest(f"limit {name} is {value}, more than any machine has")

    @classmethod
    def of(cls, values: Mapping[str, int]) -> Limits:
        """The defaults with these values. Raises InvalidRequest."""
        return cls()._with(values)

    @classmethod
    def parse(cls, settings: Iterable[str]) -> Limits:
        """The server's limits from `NAME=VALUE` strings.

        Raises InvalidRequest with the names that exist, or what was expected of the value.
        """
        values: dict[str, int] = {}
        for setting in settings:
            name, equals, value = setting.partition("=")
            name = name.strip()
            if not equals:
                raise InvalidRequest(f"--limit {setting!r}: expected NAME=VALUE, for example memory_mb=128")
            if name not in _SPECS:
                raise InvalidRequest(f"--limit {name!r} is no limit; there are {', '.join(_SPECS)}")
            if not value.strip().isdecimal() or len(value.strip()) > _MOST_DIGITS:
                least = _SPECS[name].metadata["least"]
                raise InvalidRequest(f"--limit {name}: expected a whole number from {least}, got {value[:40]!r}")
            values[name] = int(value)
        return cls()._with(values)

    def as_dict(self) -> dict[str, int]:
        """Every limit by its name."""
        return dataclasses.asdict(self)

    def lowered(self, wanted: Mapping[str, int] | Limits) -> Limits:
        """A session's limits: `wanted`, each at most as high as here; Limits as they are, but for the server's own.

        Raises InvalidRequest, naming the limit, for an unknown name, a value below what makes sense
        or one above the server's.
        """
        if isinstance(wanted, Limits):
            wanted = {
                name: value for name, value in wanted.as_dict().items() if not _SPECS[name].metadata["server_only"]
            }
        for name, value in wanted.items():
            spec = _SPECS.get(name)
            if spec is not None and spec.metadata["server_only"]:
                raise InvalidRequest(f"limits.{name} is a limit of the server; a session cannot set it")
            if spec is not None and type(value) is int and value > getattr(self, name):
                raise InvalidRequest(
                    f"limit {name} is {value}; a session may ask for at most the server's {getattr(self, name)}"
                )
        return self._with(wanted)

    def _with(self, values: Mapping[str, int]) -> Limits:
        for name in values:
            if name not in _SPECS:
                raise InvalidRequest(f"{name!r} is no limit; there are {', '.join(_SPECS)}")
        return dataclasses.replace(self, **values)


_SPECS = {spec.name: spec for spec in fields(Limits)}
