"""The output of a cell: a list with a cursor, from which everything can be had again."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from codemode.cells.observation import Notification
from codemode.cells.output import OutputBuffer
from codemode.cells.truncation import Item

OVERHEAD = 64  # bytes that an item costs besides its text


@dataclass
class Model:
    """The same, done naively."""

    items: list[Item] = field(default_factory=list)
    delivered: list[Item] = field(default_factory=list)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.binary(max_size=20)),
        st.tuples(st.just("take"), st.none()),
        st.tuples(st.just("after"), st.integers(-3, 30)),
    ),
    max_size=40,
)


@given(steps)
def test_each_item_is_taken_once_and_can_be_had_again(given_steps: list[tuple[str, object]]) -> None:
    """`take` gives what is new, `after` everything behind a cursor; the cursor and the sizes follow."""
    buffer, model = OutputBuffer(), Model()
    taken = 0
    for name, value in given_steps:
        if name == "append":
            assert isinstance(value, bytes)
            buffer.append(value, len(value))
            model.items.append(value)
        elif name == "take":
            assert buffer.take().items == model.items[taken:]
            taken = len(model.items)
        else:
            assert isinstance(value, int)
            assert buffer.after(value).items == model.items[max(0, value) :]
            taken = taken if value > len(model.items) else len(model.items)
        waiting = sum(len(item) + OVERHEAD for item in model.items[taken:])
        total = sum(len(item) + OVERHEAD for item in model.items)
        assert (buffer.cursor, buffer.taken, buffer.undelivered_bytes, buffer.total_bytes) == (
            len(model.items),
            taken,
            waiting,
            total,
        )


def test_what_was_handed_over_does_not_grow_later() -> None:
    """An answer holds the items of its moment."""
    buffer = OutputBuffer()
    buffer.append(b"a", 1)
    first, again = buffer.take().items, buffer.after(0).items
    buffer.append(b"b", 1)
    assert (first, again, buffer.take().items) == ([b"a"], [b"a"], [b"b"])


def test_notifications_have_their_place_among_the_items() -> None:
    """They are handed over once, can be had again by their cursor, and count as output."""
    buffer = OutputBuffer()
    buffer.append(b"a", 1)
    buffer.notify(b"\xff note", 5)
    note = Notification("\ufffd note", 5)
    taken = [buffer.take(), buffer.take(), buffer.after(1), buffer.after(2)]
    assert taken == [([b"a"], [note]), ([], []), ([], [note]), ([], [])]
    assert (buffer.total_bytes, buffer.cursor) == (1 + 6 + 2 * OVERHEAD, 2)
