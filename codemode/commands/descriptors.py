"""How the descriptors of the service's process are shared out, so that connections leave some for cells."""

from __future__ import annotations

import contextlib
import resource
from typing import Final

_OF_A_CELL: Final = 2  # its socket, and a handle on its process
_OTHERS: Final = 64  # listener, event loop, zygote, log, workspace
_OF_HTTP_TOOLS: Final = 1024
MOST_CONNECTIONS: Final = 4096  # unless the operator says otherwise
_LEAST_CONNECTIONS: Final = 16


def most_connections(cells: int, wanted: int | None = None) -> int:
    """How many HTTP connections there may be beside so many cells; at most `wanted` if that is given.

    The soft limit of descriptors is raised towards what all need together, as far as the hard one allows. Where it is
    too low for that, cells come first, but a quarter of all descriptors is for connections.
    """
    return connections_within(_raised_to(needed(cells, wanted)), cells, wanted)


def needed(cells: int, wanted: int | None = None) -> int:
    """How many descriptors so many cells and connections need together."""
    return cells * _OF_A_CELL + _OTHERS + _OF_HTTP_TOOLS + (MOST_CONNECTIONS if wanted is None else wanted)


def connections_within(limit: int, cells: int, wanted: int | None = None) -> int:
    """How many connections there may be with so many descriptors."""
    reserved = cells * _OF_A_CELL + _OTHERS
    most = MOST_CONNECTIONS if wanted is None else wanted
    return min(most, max(limit - reserved, limit // 4, _LEAST_CONNECTIONS))


def _raised_to(wanted: int) -> int:
    """The limit of descriptors, raised if it was lower and may be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
