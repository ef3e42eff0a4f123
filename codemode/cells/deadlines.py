"""The times at which something happens to a cell by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

from codemode.lifecycle.deadline import Deadline

Name = Literal["lifetime", "idle", "stop"]
_STAND_STILL: Final = ("lifetime", "idle")  # while a person is asked about one of the cell's calls


class Deadlines:
    """Deadlines by name; setting one again replaces it."""

    def __init__(self) -> None:
        self._deadlines: dict[Name, Deadline] = {}
        self._asked = 0  # calls of the cell that a person is asked about

    def set(self, name: Name, milliseconds: float, then: Callable[[], None]) -> None:
        """Call `then` after so long."""
        self.cancel(name)
        deadline = self._deadlines[name] = Deadline(milliseconds, lambda _: then())
        if self._asked and name in _STAND_STILL:
            deadline.pause()

    def stand_still(self, asked: bool) -> None:
        """A person is asked about one more call, or about one less."""
        before, self._asked = self._asked, self._asked + (1 if asked else -1)
        if bool(before) == bool(self._asked):
            return
        for name in _STAND_STILL:
            deadline = self._deadlines.get(name)
            if deadline is not None:
                deadline.pause() if asked else deadline.resume()

    def cancel(self, name: Name) -> None:
        """Let one not happen."""
        deadline = self._deadlines.pop(name, None)
        if deadline is not None:
            deadline.close()

    def cancel_all(self) -> None:
        """Let none happen."""
        for deadline in self._deadlines.values():
            deadline.close()
        self._deadlines.clear()
