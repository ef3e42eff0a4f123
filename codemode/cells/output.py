"""What one cell puts out: items of output and notifications, numbered, so that an answer can be had again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from codemode.cells.observation import Notification
from codemode.cells.truncation import Item

# What an item costs besides its text: a flood of short lines is bounded by its memory, not by its letters.
_ITEM_OVERHEAD: Final = 64


class Handed(NamedTuple):
    """What an answer hands over."""

    items: list[Item]
    notifications: list[Notification]


class OutputBuffer:
    """Items and notifications in the order they came. A cursor is the number of both before it.

    All is kept as long as the cell is; `taken` is how far answers have handed it over.
    """

    def __init__(self) -> None:
        self._entries: list[Item | Notification] = []
        self._notified = False
        self.total_bytes = 0
        self.undelivered_bytes = 0
        self.taken = 0

    @classmethod
    def of(cls, entries: Iterable[Item | Notification], taken: int) -> OutputBuffer:
        """What a cell of an earlier run had put out; answers had handed over `taken` of it."""
        buffer = cls()
        for entry in entries:
            if isinstance(entry, Notification):
                buffer.notify(entry.text.encode("utf-8", "replace"), entry.at_ms)
            else:
                buffer.append(
                    entry, len(entry) if isinstance(entry, bytes) else sum(map(len, map(str, entry.values())))
                )
        buffer.taken = min(taken, buffer.cursor)
        return buffer

    @property
    def cursor(self) -> int:
        """The cursor after what came last."""
        return len(self._entries)

    def append(self, item: Item, size: int) -> None:
        """Add an item of `size` bytes."""
        self._entries.append(item)
        self._count(size)

    def notify(self, text: bytes, at_ms: int) -> Notification:
        """Add a notification."""
        notification = Notification(text.decode("utf-8", "replace"), at_ms)
        self._entries.append(notification)
        self._notified = True
        self._count(len(text))
        return notification

    def take(self) -> Handed:
        """What nobody was handed yet; it counts as handed over."""
        return self.after(self.taken)

    def after(self, cursor: int) -> Handed:
        """All after a cursor, what was handed over included; all counts as handed over then."""
        if cursor > len(self._entries):  # of no answer of this cell: nothing is handed over
            return Handed([], [])
        entries = self._entries[max(0, cursor) :]
        self.taken = len(self._entries)
        self.undelivered_bytes = 0
        if not self._notified:
            return Handed(entries, [])  # type: ignore[arg-type]  # there are only items
        items = [entry for entry in entries if not isinstance(entry, Notification)]
        return Handed(items, [entry for entry in entries if isinstance(entry, Notification)])

    def _count(self, size: int) -> None:
        self.total_bytes += size + _ITEM_OVERHEAD
        self.undelivered_bytes += size + _ITEM_OVERHEAD
