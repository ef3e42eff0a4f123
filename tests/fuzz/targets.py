"""What is fuzzed: each target takes any bytes, and raises only if the code under test broke a promise.

tests/unit/test_hostile_input.py runs them for a moment with each test run, scripts/fuzz for as long as you like.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
from collections.abc import Callable, Iterator
from typing import Final

from codemode.cells.conduct import Conduct
from codemode.cells.hints import hint_for
from codemode.cells.observation import ScriptError
from codemode.cells.outcome import Outcome, quoted_script, read_done
from codemode.cells.plain_json import read_object, read_text
from codemode.cells.records import read_call, read_item, read_store
from codemode.cells.source import Directive, read_directive, read_source
from codemode.errors import InvalidSource, PayloadTooLarge
from codemode.isolation.ring import HEADER, Ring
from codemode.isolation.wire import Decoder, FromCell, ProtocolError, State
from codemode.isolation.zygote_link import Patience, ZygoteLink
from codemode.isolation.zygote_messages import Exit
from codemode.isolation.zygote_process import ZygoteOptions
from codemode.limits import Limits
from codemode.tools.encoding import NotJson, decode
from codemode.tools.registry import ToolRegistry
from codemode.tools.tool import Tool
from tests.unit.cell_doubles import FakeSession, SetClock, begin

MOST: Final = 1000
_RING: Final = 1024
_LIMITS: Final = Limits.of({"max_output_bytes": 4096, "max_store_bytes": 4096, "max_tool_calls": 16})
_REGISTRY: Final = ToolRegistry([Tool(name="caller"), Tool(name="other")])

Target = Callable[[bytes], None]
TARGETS: dict[str, Target] = {}


def target(function: Target) -> Target:
    TARGETS[function.__name__] = function
    return function


def pieces(data: bytes) -> Iterator[bytes]:
    """The first byte says how long the pieces are that the rest comes in."""
    size = data[0] + 1 if data else 1
    for start in range(1, len(data), size):
        yield data[start : start + size]


def frames_of(decoder: Decoder, chunks: Iterator[bytes]) -> tuple[list[tuple[int, bytes]], bool]:
    """The frames, and whether it came to a breach; what is held meanwhile is bounded."""
    found: list[tuple[int, bytes]] = []
    try:
        for chunk in chunks:
            found.extend(decoder.feed(chunk))  # those before a breach too
            assert len(decoder._buffer) <= MOST + 5
    except ProtocolError:
        return found, True
    return found, False


@target
def decoder(data: bytes) -> None:
    """Any chunking gives the same frames; anything else is a ProtocolError; memory is bounded."""
    whole = frames_of(Decoder(MOST), iter([data[1:]]))
    found, broken = frames_of(Decoder(MOST), pieces(data))
    assert (found, broken) == whole
    assert sum(5 + len(payload) for _, payload in found) <= len(data)


@target
def records(data: bytes) -> None:
    """CALL, STORE and ITEM are read or refused; what is read has the types that it should have."""
    try:
        call = read_call(data, 1, 2)
        assert 0 <= call.tool < 2
    except ProtocolError:
        pass
    try:
        key, value = read_store(data)
        key.encode()
        assert value is None or isinstance(value.encode(), bytes)
    except ProtocolError:
        pass
    try:
        item = read_item(data)
        assert item["type"] in ("image", "audio")
        for text in item.values():
            assert text is None or isinstance(text.encode(), bytes)
    except ProtocolError:
        pass


@target
def plain_json(data: bytes) -> None:
    """What is read is what `json` reads."""
    for reader, kind in ((read_object, dict), (read_text, str)):
        try:
            value = reader(data)
        except ProtocolError:
            continue
        assert isinstance(value, kind)
        assert repr(json.loads(data.decode())) == repr(value)


@target
def inputs(data: bytes) -> None:
    """The input of a call is a value or refused."""
    try:
        decode(data)
    except NotJson:
        pass


@target
def done(data: bytes) -> None:
    """A report of the end is an outcome, no end at all, or refused; its texts can be sent on."""
    try:
        outcome = read_done(data, "source", _REGISTRY, _LIMITS)
    except ProtocolError:
        return
    assert outcome is None or isinstance(outcome, Outcome)
    if outcome is not None and outcome.error is not None:
        error: ScriptError = outcome.error
        for text in (error.name, error.message, error.stack, error.hint):
            assert text is None or isinstance(text.encode(), bytes)
        assert len(error.message) < 100_000


@target
def state(data: bytes) -> None:
    """A state is one that can be, or refused."""
    conduct = Conduct(_LIMITS)
    for start in range(0, len(data), 21):
        try:
            found = conduct.state(data[start : start + 21], 3)
        except ProtocolError:
            return
        assert isinstance(found, State)
        assert found.delivered <= 3


@target
def ring(data: bytes) -> None:
    """Hostile memory gives records or a ProtocolError, in bounded time and size."""
    memory = bytearray(HEADER + _RING)
    reader = Ring(memoryview(memory), 2 * _RING)
    total = 0
    for start in range(0, min(len(data), 40_000), 260):
        chunk = data[start : start + 260]
        memory[: min(4, len(chunk))] = chunk[:4]
        at = HEADER + struct.unpack_from("<i", memory, 4)[0] % _RING
        body = chunk[4:]
        memory[at : at + len(body)] = body[: len(memory) - at]
        try:
            total += sum(len(payload) for _, payload in reader.drain())
        except ProtocolError:
            return
        assert len(memory) == HEADER + _RING
    assert total <= 3 * (len(data) // 260 + 1) * _RING


class _Owner:
    """What a pool does with messages, without processes."""

    def __init__(self) -> None:
        self.lost = 0
        self.descriptors: list[int] = []

    def forked(self, pid: int, descriptors: list[int]) -> None:
        assert pid > 1  # a signal to 0 would reach ourselves and all that is ours
        self.descriptors += descriptors

    def exited(self, exit_: Exit) -> None:
        assert exit_.pid > 1

    def fork_failed(self) -> None:
        pass

    def zygote_lost(self, link: ZygoteLink, reason: str) -> None:
        self.lost += 1


async def _hear(data: bytes) -> None:
    owner = _Owner()
    link = ZygoteLink(owner, Patience(), ZygoteOptions())
    ours, theirs = socket.socketpair()
    with theirs:
        link.listen(ours)
        link._started.set_result(None)
        for chunk in pieces(data[:60_000]):
            if len(chunk) > 200:
                null = os.open(os.devnull, os.O_RDONLY)
                socket.send_fds(theirs, [chunk], [null] * (chunk[0] % 5))
                os.close(null)
            else:
                theirs.sendall(chunk)
            link.read()
            if owner.lost:
                break
    link.read()
    link.close()
    assert owner.lost <= 1
    for descriptor in owner.descriptors:
        os.close(descriptor)


_loop: asyncio.AbstractEventLoop | None = None


@target
def control(data: bytes) -> None:
    """Messages of a zygote: no process of ours is meant, it is lost once at most, and no descriptor is left."""
    global _loop
    _loop = _loop or asyncio.new_event_loop()
    before = os.dup(0)
    os.close(before)
    _loop.run_until_complete(_hear(data))
    after = os.dup(0)
    os.close(after)
    assert after == before


@target
def source(data: bytes) -> None:
    """Any text gives a directive or is refused; and it is a script or a quoted one."""
    text = data.decode("utf-8", "surrogatepass" if data[:1] == b"s" else "replace") if _decodes(data) else ""
    try:
        directive = read_directive(text, MOST)
    except (InvalidSource, PayloadTooLarge):
        return
    assert isinstance(directive, Directive)
    for number in directive:
        assert number is None or (type(number) is int and 0 <= number < 2**53)
    quoted = quoted_script(text)
    assert quoted is None or quoted.kind == "syntax_error"
    try:
        read = read_source(text, MOST, lenient=True)
    except (InvalidSource, PayloadTooLarge):
        return
    assert read.said is not None or read.text == text


def _decodes(data: bytes) -> bool:
    try:
        data.decode("utf-8", "surrogatepass" if data[:1] == b"s" else "replace")
    except UnicodeDecodeError:
        return False
    return True


@target
def hints(data: bytes) -> None:
    """There is a hint or none, whatever the source and the message are."""
    message, _, text = data.decode("utf-8", "replace").partition("\n")
    for kind, name in (
        ("syntax_error", "SyntaxError"),
        ("script_error", "ReferenceError"),
        ("script_error", "TypeError"),
    ):
        hint = hint_for(kind, name, message, text, ("read_file", "write_file"))
        assert hint is None or isinstance(hint, str)


@target
def cell(data: bytes) -> None:
    """A cell whose process sends any frames has one end, which can be shown, and leaves its loop well."""
    clock = SetClock()
    try:
        clock.run(_live(clock, data))
        clock.pass_time(2)
        assert not clock.faults, clock.faults
    finally:
        clock.clear_up()


async def _live(clock: SetClock, data: bytes) -> None:
    session = FakeSession(_LIMITS)
    made = session.cell()
    process = begin(made)
    stream = Decoder(MOST)
    try:
        for chunk in pieces(data[:20_000]):
            for kind, payload in stream.feed(chunk):
                process.send((kind % 13, payload))  # most kinds mean nothing: let it find those that do
    except ProtocolError as problem:
        process.lose(f"it broke the protocol: {problem}")
    await asyncio.sleep(0)
    seen = await made.observe(0)
    assert seen.status in ("running", "completed", "failed")
    end = await made.observe(0, terminate=True) if made.ended is not None else seen
    assert end.cell_id == "1"
    if made.ended is None:
        process.send((FromCell.DONE, b'{"status":"completed","kind":null}'))
    assert session.ended == 1
    assert process.is_over
