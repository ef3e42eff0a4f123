"""A cell process before it is leased."""

from __future__ import annotations

from typing import Protocol

from codemode.isolation.confinement import Confinement
from codemode.isolation.process import CellProcess, is_ready
from codemode.isolation.wire import ProtocolError


class SpareOwner(Protocol):
    """The pool."""

    confinement: Confinement  # of the process that got ready last

    def spare_ready(self, process: CellProcess) -> None:
        """A process can take a script."""

    def spare_lost(self, process: CellProcess) -> None:
        """A process ended before it was leased."""


class Spare:
    """Owner of a process until it is leased: waits for its READY."""

    def __init__(self, pool: SpareOwner) -> None:
        self._pool = pool
        self._is_ready = False
        self.process: CellProcess | None = None

    def on_frame(self, kind: int, payload: bytes) -> None:
        if not is_ready(kind) or self.process is None or self._is_ready:
            raise ProtocolError(f"a spare sent a frame of kind {kind}")
        self._is_ready = True
        self._pool.confinement = Confinement.decode(payload)
        self._pool.spare_ready(self.process)

    def on_lost(self, reason: str | None) -> None:
        if self.process is not None:
            self._pool.spare_lost(self.process)
