"""An MCP server that is a process of ours: it speaks on its standard input and output, and ends with us."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, ClassVar, Final

import anyio
import mcp_types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from codemode.mcp.config import McpServer
from codemode.mcp.trouble import ServerTrouble

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

_log = logging.getLogger(__name__)

_PASSED_ON: Final = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR")
MOST_PROCESSES: Final = 256  # each takes four descriptors
_CHUNK: Final = 64 * 1024
_KEPT_OF_STDERR: Final = 4096
_GRACE_S: Final = 0.5  # to end by itself when its input ends, and again after SIGTERM


def environment(server: McpServer) -> dict[str, str]:
    """The whole environment of a server: who and where its user is, and what is configured for it."""
    ours = os.environ
    found = {name: ours[name] for name in _PASSED_ON if name in ours}
    found |= {name: value for name, value in ours.items() if name.startswith("LC_")}
    found.setdefault("PATH", os.defpath)
    return {**found, **server.env}


class _Running:
    """How many servers of all sessions run."""

    count: ClassVar[int] = 0


class _Speech:
    """Reads and writes messages, one a line. A line longer than `most_bytes` is the end."""

    def __init__(self, process: asyncio.subprocess.Process, most_bytes: int) -> None:
        self._process = process
        self._most_bytes = most_bytes
        self._stderr = bytearray()
        self.trouble: str | None = None

    async def read(self, heard: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        """Hand on what it says, until it says no more."""
        stdout, rest = self._process.stdout, bytearray()
        assert stdout is not None
        async with heard:
            with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
                while chunk := await stdout.read(_CHUNK):
                    rest += chunk
                    if b"\n" in chunk:
                        *lines, last = bytes(rest).split(b"\n")
                        rest = bytearray(last)
                        for line in lines:
                            if line.strip():
                                await heard.send(_message(line))
                    if len(rest) > self._most_bytes:
                        self.trouble = f"it wrote a message of more than {self._most_bytes} bytes"
                        await heard.send(ServerTrouble(self.trouble))
                        return

    async def write(self, said: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Write what is said to it."""
        stdin = self._process.stdin
        assert stdin is not None
        async with said:
            with contextlib.suppress(OSError, RuntimeError):  # it has ended, which reading shows
                async for item in said:
                    stdin.write(item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                    await stdin.drain()

    async def keep_stderr(self) -> None:
        """Keep the end of what it complains about, for the operator's log."""
        stderr = self._process.stderr
        assert stderr is not None
        with contextlib.suppress(OSError):
            while chunk := await stderr.read(_CHUNK):
                self._stderr += chunk
                del self._stderr[:-_KEPT_OF_STDERR]

    @property
    def complaint(self) -> str:
        """The end of its standard error."""
        return self._stderr.decode("utf-8", "replace").strip()


def _message(line: bytes) -> SessionMessage | Exception:
    try:
        return SessionMessage(mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as problem:
        return problem


@asynccontextmanager
async def stdio_streams(server: McpServer, most_bytes: int) -> AsyncIterator[TransportStreams]:
    """A server of its own, started here and ended at the end, with its whole process group.

    Raises ServerTrouble if it cannot be started. What it writes to standard error goes to the log when it ends.
    """
    if _Running.count >= MOST_PROCESSES:
        raise ServerTrouble(f"the service runs {MOST_PROCESSES} MCP servers, as many as it may")
    _Running.count += 1
    try:
        async with _running(server, most_bytes) as streams:
            yield streams
    finally:
        _Running.count -= 1


@asynccontextmanager
async def _running(server: McpServer, most_bytes: int) -> AsyncIterator[TransportStreams]:
    process = await _started(server)
    speech = _Speech(process, most_bytes)
    heard, to_read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_write, said = anyio.create_memory_object_stream[SessionMessage](0)
    tasks = [asyncio.create_task(work) for work in (speech.read(heard), speech.write(said), speech.keep_stderr())]
    try:
        yield to_read, to_write
    finally:
        ended_itself = process.returncode is not None
        ending = asyncio.ensure_future(_end(process, tasks))
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            await ending
            raise
        finally:
            for stream in (heard, to_read, to_write, said):
                stream.close()
            if speech.trouble or ended_itself or speech.complaint:
                why = speech.trouble or f"exit status {process.returncode}"
                level = logging.WARNING if ended_itself or speech.trouble else logging.DEBUG
                _log.log(level, "MCP server %s ended (%s): %s", server.name, why, speech.complaint)


async def _started(server: McpServer) -> asyncio.subprocess.Process:
    assert server.command is not None
    try:
        return await asyncio.create_subprocess_exec(
            server.command,
            *server.args,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment(server),
            cwd=server.cwd,
            start_new_session=True,
        )
    except (OSError, ValueError) as problem:
        _log.warning("MCP server %s cannot be started: %s", server.name, problem)
        raise ServerTrouble("its command cannot be started") from None


async def _end(process: asyncio.subprocess.Process, tasks: list[asyncio.Task[None]]) -> None:
    """End it and all of its group: first by the end of its input, then by SIGTERM, then by SIGKILL."""
    assert process.stdin is not None
    process.stdin.close()
    for number in (signal.SIGTERM, signal.SIGKILL):
        if await _exited(process):
            break
        _signal(process, number)
    _signal(process, signal.SIGKILL)  # what it left behind in its group
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await _exited(process)
    process._transport.close()  # type: ignore[attr-defined]  # what it left behind elsewhere may hold the pipes open


async def _exited(process: asyncio.subprocess.Process) -> bool:
    """Whether it has ended within the grace. `process.wait` would wait for whoever else has its pipes, too."""
    deadline = asyncio.get_running_loop().time() + _GRACE_S
    while process.returncode is None and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(0.005)
    return process.returncode is not None


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
