"""The server under test."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import re
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from .differences import brief, strings
from .form import IN_SECONDS, LIMITS, SWITCHES
from .stub import Stub


class CannotServe(Exception):
    """The server under test did not come up."""


class Target:
    """The server for one set of settings: started when first needed, started again if it died, stopped at the end."""

    def __init__(self, options: argparse.Namespace, stub: Stub, settings: dict[str, Any], folder: Path) -> None:
        self.options, self.stub, self.settings, self.folder = options, stub, settings, folder
        self.key: str | None = (settings.get("keys") or [options.key])[0]
        self.process: subprocess.Popen[bytes] | None = None
        self.starts = 0
        self.hopeless: CannotServe | None = None
        self.notes: list[str] = []
        self.lock = asyncio.Lock()
        self.url: str = options.base_url or ""
        if not self.url:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                self.port = probe.getsockname()[1]
            self.url = f"http://127.0.0.1:{self.port}"

    @property
    def dead(self) -> bool:
        return self.process is not None and self.process.poll() is not None

    async def ensure_up(self) -> int:
        """Makes sure that the server runs. The number of starts so far tells later whether it died meanwhile."""
        async with self.lock:
            if self.hopeless:
                raise self.hopeless
            if self.dead:
                self.notes.append(f"it died by itself with status {self.process.returncode}")  # type: ignore[union-attr]
                self.kill_group()
            try:
                if self.starts > 20:
                    raise CannotServe("it died too often")
                if self.starts == 0 or self.dead:
                    await self.start()
            except CannotServe as problem:
                self.hopeless = problem
                raise
        return self.starts

    async def start(self) -> None:
        self.starts += 1
        if not self.options.base_url:
            flags = " ".join(map(shlex.quote, self.flags()))
            template = self.options.server_command + ("" if "{flags}" in self.options.server_command else " {flags}")
            command = template.replace("{port}", str(self.port)).replace("{flags}", flags).replace("{tmp}", str(self.folder))
            self.log = self.folder / "server.log"
            with self.log.open("ab") as log:
                try:
                    self.process = subprocess.Popen(
                        shlex.split(command), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
                    )
                except OSError as problem:
                    raise CannotServe(str(problem)) from None
        await self.wait_ready()

    async def wait_ready(self) -> None:
        deadline = time.monotonic() + self.options.start_timeout
        answer = "nothing"
        async with httpx.AsyncClient(timeout=2, trust_env=False) as client:
            while time.monotonic() < deadline and not self.dead:
                with contextlib.suppress(httpx.HTTPError):
                    response = await client.get(f"{self.url}/readyz")
                    if response.status_code == 200:
                        return
                    answer = f"{response.status_code} {brief(response.text)}"
                await asyncio.sleep(0.05)
        ended = f", it ended with status {self.process.returncode}" if self.process and self.dead else ""
        tail = self.log.read_text(errors="replace")[-1500:] if self.process else ""
        raise CannotServe(f"/readyz did not answer 200 (last answer: {answer}{ended})\n{tail}")

    def flags(self) -> Iterator[str]:
        if self.settings.get("tool_urls") is not False:
            yield from ("--allow-tool-url", f"{self.stub.url}/")
        for name, value in self.settings.items():
            if name in LIMITS:
                yield from ("--limit", f"{name}={value}")
            elif name in IN_SECONDS:
                yield from ("--limit", f"{IN_SECONDS[name]}={round(value * 1000)}")
            elif name in SWITCHES:
                yield from (SWITCHES[name],) if value else ()
            elif name == "allow_tool_url":
                for prefix in strings(value):
                    yield from ("--allow-tool-url", prefix)
            elif name == "keys":
                (self.folder / "keys").write_text("".join(f"{key}\n" for key in value))
                (self.folder / "keys").chmod(0o600)
                yield from ("--key-file", str(self.folder / "keys"))
            elif name == "data_dir":
                yield from ("--data-dir", str(self.folder / "data"))
            elif name == "workspace":
                for path, text in value.items():
                    file = self.folder / "workspace" / path
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_text(text)
                yield from ("--workspace", str(self.folder / "workspace"))

    def resident_mb(self) -> float:
        """Resident memory of the server process itself (Linux; elsewhere 0)."""
        assert self.process is not None
        with contextlib.suppress(OSError):
            if found := re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{self.process.pid}/status").read_text()):
                return int(found[1]) / 1024
        return 0.0

    async def ended(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not self.dead:
            await asyncio.sleep(0.02)
        return self.dead

    async def kill_and_restart(self) -> None:
        """SIGKILL to the server alone; whatever it had started has to notice by itself."""
        assert self.process is not None
        self.process.kill()
        await self.ended(10)
        await self.start()

    async def stop(self) -> None:
        """SIGTERM first, as an operator would; what does not end by itself is killed, and that is noted."""
        if self.process is None:
            return
        if not self.dead:
            self.process.send_signal(signal.SIGTERM)
            if not await self.ended(self.options.stop_timeout):
                self.notes.append(f"it did not end within {self.options.stop_timeout:g} s of SIGTERM and was killed")
            elif self.process.returncode not in (0, -signal.SIGTERM):
                self.notes.append(f"it ended with status {self.process.returncode} on SIGTERM")
        await asyncio.sleep(0.2)
        if self.kill_group():
            self.notes.append("processes of it were still there after its end and were killed")

    def kill_group(self) -> bool:
        """Kill what is left of the server's process group; whether anything alive was."""
        assert self.process is not None
        left = members_of(self.process.pid)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        return bool(left - {self.process.pid})


def members_of(group: int) -> set[int]:
    """The living processes of a process group (Linux; elsewhere none are seen)."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, pgrp, *_ = stat.read_text().rpartition(")")[2].split()
            if pgrp == str(group) and state not in "ZX":
                found.add(int(stat.parent.name))
    return found
