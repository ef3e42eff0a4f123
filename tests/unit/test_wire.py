"""Frames: a stream gives the same frames however it is split, and nothing that is too long is ever held."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codemode.isolation.wire import Decoder, FromCell, ProtocolError, State, ToCell, frame, read_result, result

MOST = 300

Frame = tuple[int, bytes]
frames_of_any_kind = st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=MOST)), max_size=8)


def stream_of(frames: list[Frame]) -> bytes:
    return b"".join(frame(kind, payload) for kind, payload in frames)


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    """`data` in pieces, some of them empty; a cut is taken modulo the length."""
    places = sorted(cut % (len(data) + 1) for cut in cuts)
    return [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True)]


@given(frames_of_any_kind, st.lists(st.integers(0, 10_000), max_size=20))
def test_frames_are_the_same_however_the_stream_is_split(frames: list[Frame], cuts: list[int]) -> None:
    """Whatever pieces a stream comes in, its frames come out once, in order, and nothing is left."""
    decoder = Decoder(MOST)
    got = [each for piece in split(stream_of(frames), cuts) for each in decoder.feed(piece)]
    assert (got, decoder.is_between_frames) == (frames, True)


@given(frames_of_any_kind, st.integers(0, 10_000))
def test_a_stream_that_breaks_off_gives_the_frames_that_were_whole(frames: list[Frame], cut: int) -> None:
    """A stream that ends anywhere has given exactly its whole frames, and says whether it ended between two."""
    stream = stream_of(frames)
    at = cut % (len(stream) + 1)
    ends = [len(stream_of(frames[:count])) for count in range(len(frames) + 1)]
    whole = sum(end <= at for end in ends) - 1
    decoder = Decoder(MOST)
    assert (list(decoder.feed(stream[:at])), decoder.is_between_frames) == (frames[:whole], at in ends)


@given(frames_of_any_kind, st.integers(MOST + 1, 2**32 - 1), st.integers(0, 255))
def test_a_frame_that_is_too_long_is_refused_by_its_head(frames: list[Frame], length: int, kind: int) -> None:
    """The head alone is enough to refuse it, and the frames before it have been given."""
    decoder = Decoder(MOST)
    got: list[Frame] = []
    got.extend(decoder.feed(stream_of(frames)))
    with pytest.raises(ProtocolError, match=f"a frame of {length} bytes, at most {MOST} are allowed"):
        got.extend(decoder.feed(struct.pack("<IB", length, kind)))
    assert got == frames


def test_a_frame_of_exactly_the_limit_is_taken() -> None:
    """The limit itself is no breach."""
    assert list(Decoder(MOST).feed(frame(1, b"x" * MOST))) == [(1, b"x" * MOST)]


@given(st.lists(st.binary(max_size=400), max_size=20))
def test_garbage_gives_frames_or_a_protocol_error_and_nothing_else(pieces: list[bytes]) -> None:
    """Random bytes never raise anything else, and never give more bytes than came in."""
    decoder = Decoder(MOST)
    given_out = 0
    try:
        for piece in pieces:
            given_out += sum(5 + len(payload) for _, payload in decoder.feed(piece))
    except ProtocolError:
        pass
    assert given_out <= sum(map(len, pieces))


@given(st.booleans(), st.booleans(), st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_a_state_survives_the_wire(idle: bool, timers: bool, delivered: int, cpu_us: int, heap: int) -> None:
    """What is encoded is decoded as it was, in one frame of its kind."""
    state = State(idle, timers, delivered, cpu_us, heap)
    ((kind, payload),) = Decoder(MOST).feed(state.encode())
    assert (kind, State.decode(payload)) == (FromCell.STATE, state)


@given(st.binary(max_size=60).filter(lambda payload: len(payload) != len(State(False, False, 0, 0, 0).encode()) - 5))
def test_a_state_of_another_size_is_a_breach(payload: bytes) -> None:
    """No payload but one of exactly the right size is read."""
    with pytest.raises(ProtocolError, match="a state of the wrong size"):
        State.decode(payload)


@given(st.integers(0, 2**32 - 1), st.booleans(), st.text())
def test_a_result_survives_the_wire(number: int, well: bool, text: str) -> None:
    """Number, success and text of a nested call's result arrive as they were sent."""
    ((kind, payload),) = Decoder(10_000).feed(result(number, well, text.encode()))
    assert (kind, read_result(payload)) == (ToCell.RESULT, (number, well, text))
