"""Where the lines of the audit go: to standard error or to a file, and never in the way of the service."""

from __future__ import annotations

import logging
import os
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from codemode.errors import InvalidRequest

STDERR: Final = "stderr"
OFF: Final = "off"
_MOST_WAITING: Final = 1000  # lines
_FAREWELL_S: Final = 1.0
_STDERR_FD: Final = 2
_NONE: Final = logging.CRITICAL + 1


class _File:
    """A file that is appended to, and made again, for its owner alone, when somebody has moved it away."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = self._open()

    def _open(self) -> int:
        """Without waiting for somebody who reads it, if it is a named pipe: there has to be one already."""
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK, 0o600)
        os.set_blocking(descriptor, True)
        return descriptor

    def descriptor(self) -> int:
        try:
            is_moved = not os.path.samestat(self._path.stat(), os.fstat(self._descriptor))
        except FileNotFoundError:
            is_moved = True
        if is_moved:
            moved, self._descriptor = self._descriptor, self._open()
            os.close(moved)  # last: a descriptor that is closed may be somebody else's a moment later
        return self._descriptor

    def close(self) -> None:
        os.close(self._descriptor)


class _Background(logging.Handler):
    """Hands lines to a thread, so that a full pipe or a slow disk holds up nobody.

    Lines that find a thousand others waiting are dropped; the next one that is written says how many. It
    writes to the descriptor itself: a thread that is stuck in a stream would keep Python from ending.
    """

    def __init__(self, file: _File | None) -> None:
        super().__init__()
        self._file = file
        self._lines: queue.Queue[str | None] = queue.Queue(_MOST_WAITING)
        self._dropped = 0
        self._thread = threading.Thread(target=self._write_all, name="codemode-audit", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._lines.put_nowait(self.format(record))
        except queue.Full:
            self._dropped += 1

    def finish(self) -> None:
        """Write what waits, for a second at most. Not `close`: configuring logging closes every handler there is."""
        with suppress(queue.Full):
            self._lines.put(None, timeout=_FAREWELL_S)
        self._thread.join(_FAREWELL_S)

    def _write_all(self) -> None:
        while (line := self._lines.get()) is not None:
            dropped, self._dropped = self._dropped, 0
            if dropped:
                line = f'{{"event": "dropped", "lines": {dropped}}}\n{line}'
            with suppress(OSError):  # a full disk or a closed pipe: the service goes on without
                self._write(f"{line}\n".encode("utf-8", "backslashreplace"))
        if self._file is not None:
            self._file.close()

    def _write(self, left: bytes) -> None:
        descriptor = _STDERR_FD if self._file is None else self._file.descriptor()
        while left:
            left = left[os.write(descriptor, left) :]


@contextmanager
def audit_to(destination: str) -> Iterator[None]:
    """Send the logger `codemode.audit` there: "stderr", "off", or a file. Raises InvalidRequest.

    What other loggers show, and from which level on, makes no difference to it.
    """
    logger = logging.getLogger("codemode.audit")
    before = logger.handlers, logger.propagate, logger.level
    try:
        file = None if destination in (STDERR, OFF) else _File(Path(destination))
    except OSError as problem:
        raise InvalidRequest(f"--audit-log {destination}: {problem.strerror}") from problem
    handler = _Background(file)
    logger.handlers, logger.propagate = [handler], False
    # A level, not `disabled`: configuring logging enables every logger there is.
    logger.setLevel(_NONE if destination == OFF else logging.INFO)
    try:
        yield
    finally:
        logger.handlers, logger.propagate = before[:2]
        logger.setLevel(before[2])
        handler.finish()
