"""What `codemode run` shows on a terminal, and how it writes there."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import sys
import time
import urllib.parse
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from codemode.cells.cell import Cell

_PROGRESS_INTERVAL: Final = 0.2  # seconds
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n)")
_ERASE: Final = "\r\x1b[K"
_USUAL_WIDTH: Final = 80  # of a terminal that does not know its own


class OutputLost(Exception):
    """Standard output takes no more; `number` is the error's."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Screen:
    """Standard output, standard error, and on a terminal a line of progress that never stays between them."""

    def __init__(self) -> None:
        self._out = sys.stdout.fileno()
        self._out_is_terminal = os.isatty(self._out)
        self._error_is_terminal = sys.stderr.isatty()
        self._shows_progress = self._error_is_terminal and os.environ.get("TERM", "") not in ("", "dumb")
        self._line = ""
        self._next_progress = time.monotonic() + _PROGRESS_INTERVAL

    async def put_text(self, text: str) -> None:
        """Write to standard output; on a terminal, a script's control characters are shown, not obeyed."""
        await self.put((harmless(text) if self._out_is_terminal else text).encode("utf-8", "replace"))

    async def put(self, data: bytes) -> None:
        """Write to standard output. On a thread, since a reader may be slow; meanwhile the script has to wait."""
        self.erase()
        try:
            await asyncio.to_thread(self._write, data)
        except OSError as problem:
            raise OutputLost(problem.errno or 0) from problem

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._out, rest) :]

    def note(self, text: str) -> None:
        """Write a line to standard error."""
        self.erase()
        _to_stderr((harmless(text) if self._error_is_terminal else text) + "\n")

    def progress(self, cell: Cell) -> None:
        """Show how long it has been running and which calls are in flight, a few times a second."""
        now = time.monotonic()
        if not self._shows_progress or now < self._next_progress:
            return
        self._next_progress = now + _PROGRESS_INTERVAL
        width = os.get_terminal_size(sys.stderr.fileno()).columns or _USUAL_WIDTH
        self._line = harmless(progress_of(cell, now))[: width - 1]  # one more and the terminal would begin another line
        _to_stderr(_ERASE + self._line)

    def erase(self) -> None:
        """Take the line of progress away."""
        if self._line:
            self._line = ""
            _to_stderr(_ERASE)

    @contextmanager
    def logging(self) -> Iterator[None]:
        """Write our warnings, a failing tool's traceback above all, between the lines of progress."""
        handler = _LogToScreen(self)
        logger = logging.getLogger("codemode")
        logger.addHandler(handler)
        try:
            yield
        finally:
            logger.removeHandler(handler)


class _LogToScreen(logging.Handler):
    def __init__(self, screen: Screen) -> None:
        super().__init__(logging.WARNING)
        self._screen = screen

    def emit(self, record: logging.LogRecord) -> None:
        self._screen.note(self.format(record))


def _to_stderr(text: str) -> None:
    with suppress(OSError):  # nobody reads it: the script and its output go on
        sys.stderr.write(text)
        sys.stderr.flush()


def progress_of(cell: Cell, now: float) -> str:
    """One line about a running cell: its age, and its calls by name."""
    bridge = cell.bridge
    names = Counter(call.registered.js_name for call in bridge.calls if call.state == "in_flight")
    calls = ", ".join(name if count == 1 else f"{name} ×{count}" for name, count in names.items())
    queued = bridge.counts["queued"]
    parts = [f"running {now - cell.created:.1f} s", calls, f"{queued} queued" if queued else ""]
    return " · ".join(part for part in parts if part)


def shown(item: dict[str, Any]) -> str:
    """An output item as text: an image or audio item as a placeholder."""
    kind = item["type"]
    if kind == "text":
        return str(item["text"])
    url: str = item[f"{kind}_url"]
    head, comma, data = url.partition(",")
    if not (comma and head[:5].lower() == "data:"):
        return f"[{kind}: {url}]"
    media_type, _, parameters = head[5:].partition(";")
    if parameters.lower().endswith("base64"):
        size = len(data.rstrip("=")) * 3 // 4
    else:
        size = len(urllib.parse.unquote_to_bytes(data))
    return f"[{kind}: {media_type or 'text/plain'}, {size} bytes]"


def harmless(text: str) -> str:
    """A text whose control characters a terminal shows instead of obeying them; line ends and tabs stay."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
