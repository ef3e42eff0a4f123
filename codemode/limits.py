"""The limits of a server and of a session, in one table.

A number's source is DESIGN §10; each is settable as `--limit NAME=VALUE` and, at most as high as
the server's, in a session's `limits`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from codemode.errors import InvalidRequest

MIB = 1024 * 1024


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
    max_cells_session: int = _limit(64, "cells", "live cells of a session")
    max_cells_server: int = _limit(512, "cells", "live cells of the server", server_only=True)
    max_sessions_key: int = _limit(64, "sessions", "sessions of a key", server_only=True)
    idle_ms: int = _limit(900_000, "ms", "how long a running cell may go without anybody waiting for it")
    max_kept_bytes: int = _limit(256 * MIB, "bytes", "ended cells of a session, their output included", least=0)
    keep_ms: int = _limit(900_000, "ms", "how long an ended cell stays known", least=0)

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
            if not value.strip().isdecimal():
                raise InvalidRequest(f"--limit {name}: expected a whole number, got {value!r}")
            values[name] = int(value)
        return cls()._with(values, "--limit")

    def as_dict(self) -> dict[str, int]:
        """Every limit by its name."""
        return dataclasses.asdict(self)

    def lowered(self, wanted: Mapping[str, int]) -> Limits:
        """A session's limits: `wanted`, each at most as high as here.

        Raises InvalidRequest, naming the limit, for an unknown name, a value below what makes sense
        or one above the server's.
        """
        for name, value in wanted.items():
            spec = _SPECS.get(name)
            if spec is not None and spec.metadata["server_only"]:
                raise InvalidRequest(f"limits.{name} is a limit of the server; a session cannot set it")
            if spec is not None and value > getattr(self, name):
                raise InvalidRequest(
                    f"limits.{name} is {value}; a session may ask for at most the server's {getattr(self, name)}"
                )
        return self._with(wanted, "limits.")

    def _with(self, values: Mapping[str, int], where: str) -> Limits:
        for name, value in values.items():
            if name not in _SPECS:
                raise InvalidRequest(f"{where} {name!r} is no limit; there are {', '.join(_SPECS)}")
            least = _SPECS[name].metadata["least"]
            if value < least:
                raise InvalidRequest(f"{where} {name} is {value}; it has to be at least {least}")
        return dataclasses.replace(self, **values)


_SPECS = {spec.name: spec for spec in fields(Limits)}
