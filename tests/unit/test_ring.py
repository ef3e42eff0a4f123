"""The ring that output goes through: a writer as in runtime_js/20_ring.js, and one that lies."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codemode.isolation.ring import HEADER, Ring
from codemode.isolation.wire import ProtocolError

CAPACITY = 1024
CHUNK = 64  # units of a record, in the same proportion to the capacity as in the real one
WIDE, MORE = 0x100, 0x200
PLENTY = 1 << 20

Record = tuple[int, bytes]


def signed(position: int) -> int:
    """A position as the 32-bit integer that both sides keep."""
    return (position + 2**31) % 2**32 - 2**31


@dataclass
class Writer:
    """Writes as the JavaScript side does, but lets the reader drain when it would have to wait."""

    memory: bytearray
    ring: Ring
    written: int = 0
    got: list[Record] = field(default_factory=list)

    @classmethod
    def at(cls, position: int, most: int = PLENTY) -> Writer:
        """Both sides having come to `position`, as after a lot of output."""
        memory = bytearray(HEADER + CAPACITY)
        struct.pack_into("<ii", memory, 0, position, position)
        ring = Ring(memoryview(memory), most)
        ring._read = position
        return cls(memory, ring, position)

    def send(self, kind: int, text: str) -> None:
        units = text.encode("utf-16-le", "surrogatepass")
        codes = struct.unpack(f"<{len(units) // 2}H", units)
        start = 0
        while True:
            end = min(len(codes), start + CHUNK)
            if end < len(codes) and 0xD800 <= codes[end - 1] <= 0xDBFF:
                end -= 1
            last = end == len(codes)
            self.put(kind if last else kind | MORE, codes[start:end])
            if last:
                return
            start = end

    def put(self, kind: int, codes: tuple[int, ...]) -> None:
        wide = any(code > 255 for code in codes)
        payload = struct.pack(f"<{len(codes)}H", *codes) if wide else bytes(codes)
        self.raw(kind | (WIDE if wide else 0), len(payload), payload)

    def raw(self, kind: int, size: int, payload: bytes) -> None:
        """One record, its size as it is told, which need not be true."""
        taken = 8 + (len(payload) + 7 & ~7)
        read = struct.unpack_from("<i", self.memory, 4)[0]
        if CAPACITY - (self.written - read & 0xFFFFFFFF) < taken + 8:
            self.drain()
        for offset, byte in enumerate(struct.pack("<Ii", kind, size) + payload):
            self.memory[HEADER + (self.written + offset) % CAPACITY] = byte
        self.publish(self.written + taken)

    def publish(self, position: int) -> None:
        self.written = signed(position)
        struct.pack_into("<i", self.memory, 0, self.written)

    def drain(self) -> None:
        self.got += self.ring.drain()


def positions() -> st.SearchStrategy[int]:
    """Where both sides may stand: multiples of 8, most of all where the counter and the ring wrap."""
    near = st.sampled_from([0, CAPACITY, -CAPACITY, 2**31 - 8, -(2**31)])
    return st.builds(lambda base, steps: signed(base + 8 * steps), near, st.integers(-40, 40))


records = st.lists(
    st.tuples(
        st.integers(1, 9),
        st.one_of(
            st.text(max_size=400),
            st.text(st.characters(max_codepoint=255), max_size=400),
            st.text(st.characters(categories=["Cs", "Lu"]), max_size=20),
        ),
    ),
    max_size=12,
)


@given(positions(), records, st.sets(st.integers(0, 12)))
def test_records_come_out_as_they_were_written(
    position: int, written: list[tuple[int, str]], drained_after: set[int]
) -> None:
    """Wide and narrow, in parts and over either wrap, whenever it is read: every record, once and in order."""
    writer = Writer.at(position)
    for number, (kind, text) in enumerate(written):
        writer.send(kind, text)
        if number in drained_after:
            writer.drain()
    writer.drain()
    # UTF-16 joins what Python may hold as two surrogates, and gives the others up for U+FFFD.
    seen_as = [
        (kind, text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")) for kind, text in written
    ]
    assert writer.got == [(kind, text.encode()) for kind, text in seen_as]


def test_reading_gives_the_room_back() -> None:
    """After a drain the writer sees that all of it was read, and a second drain finds nothing."""
    writer = Writer.at(0)
    writer.send(1, "some text")
    writer.drain()
    expected = struct.pack("<ii", writer.written, writer.written)
    assert (bytes(writer.memory[:8]), len(writer.ring.drain())) == (expected, 0)


def test_what_was_read_does_not_change_with_the_memory() -> None:
    """A payload is a copy: the script may write over the place it came from."""
    writer = Writer.at(0)
    writer.send(1, "before")
    writer.drain()
    writer.memory[HEADER:] = b"\xff" * CAPACITY
    assert writer.got == [(1, b"before")]


@pytest.mark.parametrize(
    "size", [-1, -8, -(2**31), CAPACITY, CAPACITY + 1, 2**31 - 1, 17], ids=lambda size: f"size {size}"
)
def test_a_size_that_cannot_be_is_a_breach(size: int) -> None:
    """A record that is negative, longer than the ring or longer than what was written is not read."""
    writer = Writer.at(0)
    writer.raw(1, size, b"8 bytes!")
    with pytest.raises(ProtocolError, match="the ring does not hold what it says"):
        writer.drain()


@pytest.mark.parametrize("ahead", [CAPACITY + 8, 2 * CAPACITY, 5 * CAPACITY])
def test_a_writer_that_is_further_ahead_than_the_ring_is_long_is_a_breach(ahead: int) -> None:
    """An honest writer waits for room, so it is a lie; 2^32 bytes of empty records would be read for minutes."""
    writer = Writer.at(0)
    writer.publish(ahead)
    with pytest.raises(ProtocolError):
        writer.drain()


def test_a_record_of_too_many_parts_is_a_breach() -> None:
    """Parts are held until the last one has come, so their sum is bounded."""
    writer = Writer.at(0, most=200)
    for _ in range(3):
        writer.put(1 | MORE, (65,) * CHUNK)
        writer.drain()
    writer.put(1 | MORE, (65,) * CHUNK)
    with pytest.raises(ProtocolError, match="a record is longer than any output may be"):
        writer.drain()


@given(st.binary(min_size=CAPACITY, max_size=CAPACITY), st.integers(0, CAPACITY), positions())
def test_any_contents_give_records_or_a_breach(contents: bytes, ahead: int, position: int) -> None:
    """Whatever stands in the ring, reading it ends and raises nothing but a ProtocolError."""
    writer = Writer.at(position)
    writer.memory[HEADER:] = contents
    writer.publish(position + ahead)
    try:
        writer.drain()
    except ProtocolError:
        return
    assert sum(len(payload) for _, payload in writer.got) <= 3 * CAPACITY
