"""A server process and the leanest HTTP client for it, so that the client's own time hardly counts."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
_READY_TIMEOUT_S = 30


class Service:
    """`codemode serve` on a free port, ended by its process id."""

    def __init__(self, *options: str) -> None:
        command = [sys.executable, "-m", "codemode", "serve", "--port", "0", *options]
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        url = self.process.stdout.readline().split()[-1]
        self.port = int(url.rpartition(":")[2])
        deadline = time.monotonic() + _READY_TIMEOUT_S
        while time.monotonic() < deadline:
            try:
                with Connection(self.port) as connection:
                    if connection.get("/readyz")[0] == 200:
                        return
            except OSError:
                time.sleep(0.02)
        raise TimeoutError("the service did not become ready")

    def __enter__(self) -> Service:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.process.terminate()
        self.process.wait(30)

    def cell_processes(self) -> list[int]:
        """The process ids of all cell processes, spares included (Linux)."""
        zygotes = _children(self.process.pid)
        return [pid for zygote in zygotes for pid in _children(zygote)]


def _children(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    return [int(child) for child in listed.split()]


class Connection:
    """One kept-alive connection."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._rest = b""

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def get(self, path: str) -> tuple[int, bytes]:
        """Status and body."""
        return self._answer(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())

    def post(self, path: str, body: Any) -> tuple[int, bytes]:
        """Status and body of a POST of JSON."""
        return self.send(prepared(path, body))

    def send(self, request: bytes) -> tuple[int, bytes]:
        """Status and body of a request that was prepared."""
        return self._answer(request)

    def observe(self, path: str, body: Any) -> dict[str, Any]:
        """The JSON object that a POST is answered with."""
        status, answer = self.post(path, body)
        value: dict[str, Any] = json.loads(answer)
        if status >= 400:
            raise RuntimeError(f"{path}: {value}")
        return value

    def _answer(self, request: bytes) -> tuple[int, bytes]:
        self._socket.sendall(request)
        data = self._rest
        while (end := data.find(b"\r\n\r\n")) < 0:
            data += self._more()
        head = data[:end].lower()
        at = head.find(b"content-length:")
        length = 0 if at < 0 else int(head[at + 15 :].split(b"\r\n", 1)[0])
        parts, size = [data[end + 4 :]], len(data) - end - 4
        while size < length:
            parts.append(self._more())
            size += len(parts[-1])
        body = b"".join(parts)
        self._rest = body[length:]
        return int(head[9:12]), body[:length]

    def _more(self) -> bytes:
        data = self._socket.recv(1 << 20)
        if not data:
            raise ConnectionError("the service closed the connection")
        return data


def prepared(path: str, body: Any) -> bytes:
    """The bytes of a POST of JSON."""
    text = json.dumps(body).encode()
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        f"Content-Length: {len(text)}",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + text
