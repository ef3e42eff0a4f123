"""What one cell puts out: every item, numbered, so that an answer can be had again; and its notifications."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from codemode.cells.observation import Notification
from codemode.cells.truncation import Item

# What an item costs besides its text: a flood of short lines is bounded by its memory, not by its letters.
_ITEM_OVERHEAD: Final = 64


class OutputBuffer:
    """Items in the order they were written. A cursor is the number of items before it.

    All items are kept as long as the cell is; `taken` is how far answers have handed them over.
    """

    def __init__(self) -> None:
        self._items: list[Item] = []
        self.total_bytes = 0
        self.undelivered_bytes = 0
        self.taken = 0
        self._notifications: list[Notification] = []

    @property
    def cursor(self) -> int:
        """The cursor after the last item."""
        return len(self._items)

    def append(self, item: Item, size: int) -> None:
        """Add an item of `size` bytes."""
        self._items.append(item)
        self.total_bytes += size + _ITEM_OVERHEAD
        self.undelivered_bytes += size + _ITEM_OVERHEAD

    def notify(self, text: bytes, at_ms: int) -> None:
        """Add a notification."""
        self._notifications.append(Notification(text.decode("utf-8", "replace"), at_ms))
        self.total_bytes += len(text) + _ITEM_OVERHEAD

    def take_notifications(self) -> list[Notification]:
        """Those that nobody was handed yet."""
        taken, self._notifications = self._notifications, []
        return taken

    def take(self) -> Sequence[Item]:
        """The items that nobody was handed yet; they count as handed over."""
        items = self._items[self.taken :] if self.taken else self._items[:]
        self._hand_over()
        return items

    def after(self, cursor: int) -> Sequence[Item]:
        """All items after a cursor, those that were handed over included; all count as handed over then."""
        items = self._items[max(0, cursor) :]
        self._hand_over()
        return items

    def _hand_over(self) -> None:
        self.taken = len(self._items)
        self.undelivered_bytes = 0
