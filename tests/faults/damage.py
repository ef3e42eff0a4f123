"""Clients that misbehave, on bare sockets, and a proxy that loses answers."""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.faults.rig import Service
from tests.faults.server import PATIENCE_S


def connect(port: int, *, buffer: int | None = None) -> socket.socket:
    """A connection; with a small `buffer` the kernel takes in little that nobody reads."""
    plug = socket.socket()
    if buffer is not None:
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    plug.settimeout(PATIENCE_S)
    plug.connect(("127.0.0.1", port))
    return plug


def request(path: str, body: Any = None, *headers: str, method: str = "POST", length: int | None = None) -> bytes:
    """The bytes of a request with a JSON body; `length` announces another length than it has."""
    data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json", *headers]
    lines.append(f"Content-Length: {len(data) if length is None else length}")
    return "\r\n".join([*lines, "", ""]).encode() + data


def reset(plug: socket.socket) -> None:
    """Close it with RST instead of FIN."""
    plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    plug.close()


def read_to_the_end(plug: socket.socket) -> bytes:
    """All that comes until the other side closes; an RST counts as an end."""
    parts: list[bytes] = []
    with contextlib.suppress(ConnectionError):
        while part := plug.recv(1 << 20):
            parts.append(part)
    return b"".join(parts)


def answer_of(data: bytes) -> tuple[int, dict[str, Any]]:
    """The status and the JSON of a whole answer; status 0 for none."""
    if not data:
        return 0, {}
    head, _, body = data.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


def is_waited_for(server: Service, session: str, cell_id: str) -> bool:
    """Whether somebody waits for a cell; asking takes nothing, nor waits."""
    response = server.post("wait", session, cell_id=cell_id, yield_time_ms=0, after=10**9)
    return response.status_code == 409


class Proxy:
    """Forwards connections to a server, and cuts the next answer after so many bytes of it.

    `cut` bytes of the next answer come through; the rest is read from the server, so that it has been written, and
    dropped; then both sides are closed. None: everything comes through.
    """

    def __init__(self, port: int) -> None:
        self.cut: int | None = None
        self.answers_cut = 0
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(PATIENCE_S)

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                with client, connect(self._target) as server:
                    self._forward(client, server)

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        """One request and its answer: the client says `Connection: close`, or is cut off."""
        cut, self.cut = self.cut, None
        passed = 0
        with selectors.DefaultSelector() as selector:
            selector.register(client, selectors.EVENT_READ)
            selector.register(server, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select(PATIENCE_S):
                    source = key.fileobj
                    assert isinstance(source, socket.socket)
                    data = source.recv(1 << 16)
                    if source is client:
                        if not data:
                            return
                        server.sendall(data)
                        continue
                    if data:
                        let = data if cut is None else data[: max(0, cut - passed)]
                        passed += len(data)
                        client.sendall(let)
                    else:
                        self.answers_cut += cut is not None
                        return


@contextmanager
def losing_proxy(server: Service) -> Iterator[Proxy]:
    proxy = Proxy(server.port)
    try:
        yield proxy
    finally:
        proxy.close()


def resident_kib(pid: int) -> int:
    """Memory that is in use."""
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:  # noqa: PTH123
        return int(file.read().split()[1]) * 4


def pause(seconds: float) -> None:
    """Between two bytes of a slow client."""
    time.sleep(seconds)
