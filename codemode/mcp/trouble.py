"""Why a server cannot be used."""

from __future__ import annotations


class ServerTrouble(Exception):
    """A server that cannot be started or spoken with. The text is for callers: it has no path, URL or secret in it."""
