"""A TCP proxy that forwards one HTTP request per connection, and cuts connections as it is told."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal
from urllib.parse import urlsplit

# What becomes of the next connection, once its request has gone through:
Fate = Literal[
    "answer",  # the answer is passed on
    "lose",  # the service answers, and the answer is dropped
    "halve",  # the answer is cut off in its middle
    "cut",  # both ends are cut before there is an answer
    "half-open",  # the client's end is cut, and the service is not told
]


class CuttingProxy(socketserver.ThreadingTCPServer):
    """`fates` are those of the next connections, "answer" afterwards; `requests` are the paths that came."""

    daemon_threads = True

    def __init__(self, url: str) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        target = urlsplit(url)
        assert target.hostname is not None
        assert target.port is not None
        self.target = (target.hostname, target.port)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.fates: deque[Fate] = deque()
        self.requests: list[str] = []


class _Connection(socketserver.StreamRequestHandler):
    server: CuttingProxy

    def handle(self) -> None:
        line = self.rfile.readline()
        if not line:
            return
        path = line.split()[1].decode()
        self.server.requests.append(path.rpartition("/")[2])
        fate = self.server.fates.popleft() if self.server.fates else "answer"
        head, length = self._head()
        with socket.create_connection(self.server.target) as upstream:
            upstream.sendall(line + head + self.rfile.read(length))
            if fate == "half-open":
                self.connection.shutdown(socket.SHUT_RDWR)
            answer = b"" if fate == "cut" else upstream.makefile("rb").read()
        if fate == "answer":
            self.wfile.write(answer)
        elif fate == "halve":
            self.wfile.write(answer[: len(answer) // 2])

    def _head(self) -> tuple[bytes, int]:
        """The headers, with a connection that ends after the answer, and the length of the body."""
        head, length = b"connection: close\r\n", 0
        for line in iter(self.rfile.readline, b"\r\n"):
            name, _, value = line.lower().partition(b":")
            if name == b"content-length":
                length = int(value)
            if name != b"connection":
                head += line
        return head + b"\r\n", length


@contextmanager
def cutting_proxy(url: str) -> Iterator[CuttingProxy]:
    """A proxy in front of `url`, on a thread of its own."""
    with CuttingProxy(url) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            thread.join()
