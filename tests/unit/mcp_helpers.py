"""What the tests of MCP share: servers over HTTP, and one from npm that needs no network."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.unit.cli_helpers import CODEMODE, ROOT, pipe_of

SERVER = Path(__file__).with_name("mcp_server.py")
EVERYTHING = "@modelcontextprotocol/server-everything@2026.8.31"
_FOLDER = ROOT / ".cache" / "mcp"


def everything() -> str:
    """The program of the public server, installed once into `.cache`; skips where it cannot be had."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("the public MCP server needs node and npm")
    _FOLDER.mkdir(parents=True, exist_ok=True)
    program = _FOLDER / "node_modules/@modelcontextprotocol/server-everything/dist/index.js"
    with (_FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", ".", EVERYTHING]
            try:
                made = subprocess.run(command, cwd=_FOLDER, capture_output=True, timeout=90)
            except subprocess.TimeoutExpired:
                pytest.skip("npm did not install the public MCP server within 90 s")
            if made.returncode or not program.exists():
                pytest.skip(f"npm cannot install the public MCP server: {made.stderr.decode()[-200:]}")
    return str(program)


@contextmanager
def http_server(port: int = 0) -> Iterator[str]:
    """The server of `mcp_server.py` over HTTP; its URL without the path."""
    with _running([sys.executable, str(SERVER), "http"], {"MCP_TEST_PORT": str(port)}) as line:
        yield line


@contextmanager
def service(*options: str) -> Iterator[str]:
    """A `codemode serve`; its URL."""
    command = [*CODEMODE, "serve", "--port", "0", "--audit-log", "off", *options]
    with _running(command, {}) as line:
        yield line.split()[-1]


@contextmanager
def _running(command: list[str], env: dict[str, str]) -> Iterator[str]:
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, env={**os.environ, **env})
    try:
        yield pipe_of(process.stdout).readline().decode().strip()
    finally:
        process.terminate()
        try:
            process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
