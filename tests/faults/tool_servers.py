"""A tool server that answers badly: how badly is the path of the request."""

from __future__ import annotations

import contextlib
import gzip
import itertools
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.faults.damage import read_to_the_end

OK = b"HTTP/1.1 200 OK\r\n"
MIB = 1024 * 1024
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


def whole(body: bytes, *headers: bytes, status: bytes = OK) -> bytes:
    return status + b"".join(header + b"\r\n" for header in headers) + b"Content-Length: %d\r\n\r\n" % len(body) + body


def repeated(piece: bytes, start: bytes) -> Iterator[bytes]:
    yield start
    many = piece * max(1, 65536 // len(piece))
    while True:
        yield many


def a_byte_at_a_time() -> Iterator[bytes]:
    """Never to its end: the caller gives up."""
    for byte in itertools.cycle(whole(b" " * MIB)):
        yield bytes([byte])
        threading.Event().wait(0.01)


# What is sent, in pieces; after the last one the connection is closed, or left open by `silence`.
BEHAVIOURS: dict[str, Callable[[], Iterator[bytes]]] = {
    "garbage": lambda: iter([bytes(range(256)) * 100]),
    "nothing": lambda: iter([]),
    "text": lambda: iter([whole(b"hello")]),
    "a number": lambda: iter([whole(b"5")]),
    "NaN": lambda: iter([whole(b'{"output": NaN}')]),
    "deep lists": lambda: iter([whole(b'{"output": ' + b"[" * 100_000 + b"]" * 100_000 + b"}")]),
    "a hundred megabytes": lambda: itertools.chain(
        [OK + b"Content-Length: 104857600\r\n\r\n"], itertools.repeat(b"x" * MIB, 100)
    ),
    "a long error": lambda: iter([whole(json.dumps({"error": "x" * (8 * MIB)}).encode())]),
    "no end": lambda: repeated(b"10000\r\n" + b"x" * 65536 + b"\r\n", CHUNKED),
    "tiny chunks": lambda: repeated(b"1\r\nx\r\n", CHUNKED),
    "a byte at a time": a_byte_at_a_time,
    "a redirect": lambda: iter([b"HTTP/1.1 302 Found\r\nLocation: /text\r\nContent-Length: 0\r\n\r\n"]),
    "a redirect to itself": lambda: iter([b"HTTP/1.1 307 No\r\nLocation: ?\r\nContent-Length: 0\r\n\r\n"]),
    "half a body": lambda: iter([OK + b'Content-Length: 1000\r\n\r\n{"output": 1']),
    "half a chunk": lambda: iter([CHUNKED + b"ff\r\nhalf"]),
    "half a head": lambda: iter([b"HTTP/1.1 200 OK\r\nContent-Le"]),
    "a bomb": lambda: iter([whole(gzip.compress(bytes(100 * MIB), 1), b"Content-Encoding: gzip")]),
    "a hidden bomb": lambda: iter([whole(gzip.compress(bytes(100 * MIB), 1))]),
    "a long header": lambda: iter([OK + b"X: " + b"x" * (5 * MIB) + b"\r\n\r\n"]),
    "headers without an end": lambda: repeated(b"X-Many: xxxxxxxxxxxx\r\n", OK),
    "promises": lambda: repeated(b"HTTP/1.1 100 Continue\r\n\r\n", b""),
    "another status": lambda: iter([whole(b"{}", status=b"HTTP/1.1 500 No\r\n")]),
    "a status that is none": lambda: iter([b"HTTP/1.1 999999 What\r\n\r\n"]),
    "a switch": lambda: iter([b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nxyz"]),
}


class BadServer:
    """Serves each connection on a thread; with `silence` it takes a request and never answers."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._threads: list[threading.Thread] = []
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._accepting.join()
        for thread in self._threads:
            thread.join(5)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                plug, _ = self._listener.accept()
                self._threads.append(threading.Thread(target=self._serve, args=[plug], daemon=True))
                self._threads[-1].start()

    def _serve(self, plug: socket.socket) -> None:
        plug.settimeout(20)
        with plug, contextlib.suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                if not (data := plug.recv(65536)):
                    return
                head += data
            name = head.split()[1].decode().strip("/").replace("_", " ")
            if name == "silence":
                read_to_the_end(plug)
                return
            for piece in BEHAVIOURS[name]():
                plug.sendall(piece)
            plug.shutdown(socket.SHUT_WR)  # what was sent arrives, also if the request is not read to its end
            read_to_the_end(plug)


@contextmanager
def bad_server() -> Iterator[BadServer]:
    server = BadServer()
    try:
        yield server
    finally:
        server.close()
