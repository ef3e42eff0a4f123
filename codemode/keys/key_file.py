"""A key file that is looked at again while the service runs."""

from __future__ import annotations

import asyncio
import logging
import os
import stat
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from codemode.errors import InvalidRequest
from codemode.keys.key import Keys, parse_keys

MOST_BYTES: Final = 4 * 1024 * 1024
_LOOK_S: Final = 1.0
_SETTLED_NS: Final = 2_000_000_000  # file systems keep times in steps of up to 2 s
_log = logging.getLogger(__name__)


class KeyFile:
    """The keys of a file. While it is `watched`, a change counts within about a second.

    A file that is wrong or cannot be read when it is looked at again changes nothing, and the log says
    so. One without keys lets nobody in. Raises InvalidRequest if it cannot be read at the start.
    """

    def __init__(self, path: Path, clock: Callable[[], int] = time.time_ns) -> None:
        self._path = path
        self._clock = clock
        self._seen: tuple[int, ...] | None = None  # what the file was when it was read, if that is sure
        self._complaint = ""
        self._is_empty = False
        self._wake: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.keys = self._read()

    def look(self, *, anyway: bool = False) -> None:
        """Read the file if it has changed, or `anyway`. Raises nothing. It blocks: not for the event loop.

        The log tells of what was read if it is not what was known, if it was asked for, and after a complaint.
        """
        try:
            if anyway or self._seen is None or _signature(self._path.stat()) != self._seen:
                before, self.keys = self.keys, self._read()
                if anyway or self._complaint or self.keys.opens() != before.opens():
                    self._tell()
                self._complaint = ""
        except (InvalidRequest, OSError) as problem:
            self._complain(problem.detail if isinstance(problem, InvalidRequest) else f"{problem.strerror}")

    def _tell(self) -> None:
        """A warning, though it went well: who may come in has changed, and the usual log level shows no less."""
        count, tenants = len(self.keys), len({key.tenant for key in self.keys})
        if count:  # that there is none is told already
            told = f"{count} key{'s' * (count > 1)} of {tenants} tenant{'s' * (tenants > 1)}"
            _log.warning("the key file was read: %s", told)

    def _complain(self, complaint: str) -> None:
        self._seen = None
        if complaint != self._complaint:  # once, not each second
            self._complaint = complaint
            _log.error("the key file was not taken, the keys before it stay valid: %s", complaint)

    def _read(self) -> Keys:
        now = self._clock()
        content, status = read_key_file(self._path)
        keys = Keys(_parsed(self._path, content))
        # One more write within the same step of the file system's clock would leave no trace.
        is_sure = now - max(status.st_mtime_ns, status.st_ctime_ns) > _SETTLED_NS
        self._seen = _signature(status) if is_sure else None
        if not keys and not self._is_empty:
            _log.warning("the key file has no keys: whoever calls is refused until it has one")
        self._is_empty = not keys
        return keys

    # The watch

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Look at the file again and again, in the background."""
        self._loop, self._wake = asyncio.get_running_loop(), asyncio.Event()
        task = self._loop.create_task(self._watch(self._wake))
        try:
            yield
        finally:
            self._loop = self._wake = None
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _watch(self, wake: asyncio.Event) -> None:
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(wake.wait(), _LOOK_S)
            is_told = wake.is_set()
            wake.clear()
            try:
                await asyncio.to_thread(self.look, anyway=is_told)
            except Exception:  # whatever it is, the next look may go well
                _log.exception("the key file could not be looked at")

    def look_soon(self) -> None:
        """Read the file now, changed or not. For handlers of signals and other threads; nothing if not watched."""
        loop, wake = self._loop, self._wake
        if loop is not None and wake is not None:
            loop.call_soon_threadsafe(wake.set)


def read_key_file(path: Path) -> tuple[bytes, os.stat_result]:
    """The content of a key file, and what the file was. Raises InvalidRequest, for what is no plain file too.

    A pipe could be read once only, and its second reading would look like a file that has lost its keys.
    """
    try:
        with open(path, "rb", opener=_without_waiting) as stream:
            status = os.fstat(stream.fileno())
            content = stream.read(MOST_BYTES + 1) if stat.S_ISREG(status.st_mode) else None
    except OSError as problem:
        raise InvalidRequest(f"--key-file {path}: {problem.strerror}") from problem
    if content is None:
        raise InvalidRequest(f"--key-file {path}: it is no regular file")
    if len(content) > MOST_BYTES:
        raise InvalidRequest(f"--key-file {path}: it is longer than {MOST_BYTES} bytes")
    return content, status


def _without_waiting(path: str, flags: int) -> int:
    """Opening a named pipe would wait for its writer."""
    return os.open(path, flags | os.O_NONBLOCK)


def _parsed(path: Path, content: bytes) -> Keys:
    try:
        return Keys(parse_keys(content))
    except InvalidRequest as problem:
        raise InvalidRequest(f"--key-file {path}: {problem.detail}") from problem


def _signature(status: os.stat_result) -> tuple[int, ...]:
    """What differs when the file was written or replaced."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
