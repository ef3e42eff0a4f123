"""Runs the HTTP side with uvicorn, and stops it in order."""

from __future__ import annotations

import asyncio
import importlib
import ipaddress
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Final, NoReturn

import uvicorn

from codemode._bundled import bundled
from codemode.commands.descriptors import most_connections
from codemode.errors import InvalidRequest, IsolationUnavailable, SandboxUnavailable
from codemode.keys.key_file import KeyFile
from codemode.service import CodeMode

PATIENCE_S = 20.0
_KEEP_ALIVE_S = 75  # longer than HTTP clients keep idle connections, so that none closes under a request

# The event loop accepts one connection a turn from each listening socket. When the machine is busy a turn takes
# milliseconds, and new connections waited seconds behind clients that connect and hang up again and again.
_ACCEPTS: Final = 16
_STUBBORN_S: Final = 1.0


class Server(uvicorn.Server):
    """A uvicorn server that, when told to stop, first lets the service answer whoever waits.

    The first SIGTERM or SIGINT drains: new work is refused with 503, open calls are answered, cells
    get the grace period. A second one does not wait. The exit status is 0 either way.
    """

    def __init__(
        self, config: uvicorn.Config, service: CodeMode, grace: float, announce: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__(config)
        self._service = service
        self._announce = announce
        self._grace = grace
        self._draining: asyncio.Task[None] | None = None

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Start what the application lives with, the service above all, serve, and close it.

        Raises what the start of the service raises; uvicorn would log a traceback of it.
        """
        app: Any = self.config.app
        with self.capture_signals():
            async with app.router.lifespan_context(app):
                await super().serve(sockets)
            await self._end_tasks()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._announce()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._draining is not None:
            self.force_exit = self.should_exit  # the third time
            self.should_exit = True
            return
        self._draining = asyncio.get_running_loop().create_task(self._drain())

    async def _end_tasks(self) -> None:
        """A tool that goes on when it is cancelled does not keep the program from ending."""
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        if left and (await asyncio.wait(left, timeout=_STUBBORN_S))[1]:
            leave(0 if self.started else 1)

    async def _drain(self) -> None:
        await self._service.drain(self._grace)
        self.should_exit = True


def check_host(host: str, *, insecure: bool, has_keys: bool = False) -> bool:
    """Whether requests have to name this machine: where nothing but being on it gives access.

    Raises InvalidRequest for a name that does not resolve, and for an address that is reachable from elsewhere,
    without keys and unless `insecure`.
    """
    try:
        is_local = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_local = False
        _check_name(host)
    if not is_local and not insecure and not has_keys:
        raise InvalidRequest(
            f"--host {host} is reachable from elsewhere, and whoever reaches it may run scripts; "
            "give it keys with --key-file, bind to 127.0.0.1, or say --insecure if something in front checks who calls"
        )
    return is_local and not has_keys


def _check_name(host: str) -> None:
    try:
        socket.getaddrinfo(host, None)
    except (OSError, UnicodeError) as problem:
        said = getattr(problem, "strerror", None) or "it is no host name"
        raise InvalidRequest(f"--host {host[:100]} does not resolve to an address: {said}") from problem


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Raises InvalidRequest if it cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(4096)
    except (OSError, OverflowError) as problem:
        listener.close()
        raise InvalidRequest(f"cannot listen on {host} port {port}: {problem}") from problem
    return listener


def serve(
    service: CodeMode,
    listener: socket.socket,
    announce: Callable[[], None],
    *,
    local_only: bool,
    grace: float,
    log_level: str,
    keys: KeyFile | None = None,
    connections: int | None = None,
    patience: float = PATIENCE_S,
    with_mcp: bool = True,
) -> int:
    """Serve until told to stop; the exit status. `announce` is called when scripts can be run.

    At most so many `connections` are open at once, by default as many as descriptors are left for. `patience` is how
    many seconds a client may take over its part of a request. SIGHUP makes it read the key file again. Raises
    SandboxUnavailable if the service requires a sandbox that cannot be had.
    """
    bundled("api")
    if keys is not None:
        signal.signal(signal.SIGHUP, lambda *_: keys.look_soon())
    most = most_connections(service.limits.max_cells_server, connections)
    audit = importlib.import_module("codemode.api.audit").AuditLog()
    app = importlib.import_module("codemode.api.app").create_app(
        service, local_only=local_only, keys=keys, audit=audit, connections=most, with_mcp=with_mcp
    )
    options: dict[str, Any] = {
        "http": importlib.import_module("codemode.api.connection").protocol(most, patience, audit.refused),
        "loop": "uvloop" if sys.platform != "win32" else "asyncio",
        "ws": "none",
        "lifespan": "off",  # see Server.serve
        "log_level": log_level,
        "access_log": False,
        "timeout_keep_alive": _KEEP_ALIVE_S,
        "server_header": False,
        "proxy_headers": False,
        "timeout_graceful_shutdown": 5,
    }
    server = Server(uvicorn.Config(app, **options), service, grace, announce)
    try:
        server.run(sockets=[listener, *(listener.dup() for _ in range(_ACCEPTS - 1))])
    except SandboxUnavailable:
        raise
    except IsolationUnavailable as problem:
        sys.stderr.write(f"codemode: {problem.detail}\n")
    status = 0 if server.started else 1
    if any(not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()):
        leave(status)  # a tool that never returns holds a thread, which Python would wait for
    return status


def leave(status: int) -> NoReturn:
    """End the program without waiting for anything."""
    logging.shutdown()
    sys.stdout.flush()
    os._exit(status)
