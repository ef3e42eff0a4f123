"""Which walls of the kernel stand around a cell process: the cell finds out, the service hears of it."""

from __future__ import annotations

from typing import Final, NamedTuple

from codemode.isolation.wire import ProtocolError

# A cell cannot open a socket under the filter, so this one is a second wall; containers often forbid it.
_NOT_REQUIRED: Final = frozenset({"network_namespace"})


class Confinement(NamedTuple):
    """What holds for a cell process, as it saw it itself behind the last step; nothing is taken as done for granted."""

    seccomp: bool = False  # a call that is not on the list was tried and refused
    no_new_privs: bool = False
    unprivileged_user: bool = False  # neither root nor any capability
    not_dumpable: bool = False  # no other process of the same user may look into it
    ends_with_service: bool = False  # the kernel kills it when the service's process ends, however that ends
    network_namespace: bool = False  # of its own, without any interface up

    def encode(self) -> bytes:
        """A payload of one byte."""
        return bytes([sum(holds << bit for bit, holds in enumerate(self))])

    @classmethod
    def decode(cls, payload: bytes) -> Confinement:
        """Raises ProtocolError for what `encode` never gives."""
        if len(payload) != 1 or payload[0] >> len(cls._fields):
            raise ProtocolError("a confinement that makes no sense")
        return cls(*(bool(payload[0] >> bit & 1) for bit in range(len(cls._fields))))

    def active(self) -> list[str]:
        """The names of those that hold."""
        return [name for name, holds in self._asdict().items() if holds]

    def missing(self) -> list[str]:
        """The names of those that do not."""
        return [name for name, holds in self._asdict().items() if not holds]

    def required_missing(self) -> list[str]:
        """Those of them that `--require-sandbox` asks for."""
        return [name for name in self.missing() if name not in _NOT_REQUIRED]

    @property
    def summary(self) -> str:
        """One line for people."""
        active, missing = ", ".join(self.active()) or "none", ", ".join(self.missing())
        return f"{active}; MISSING: {missing}" if missing else active
