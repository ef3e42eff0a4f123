"""What an honest process of a cell can do, and what it cannot."""

from __future__ import annotations

import pytest

from codemode.cells.conduct import Conduct
from codemode.cells.writes import StoreWrites
from codemode.isolation.wire import FromCell, ProtocolError, State
from codemode.limits import MIB, Limits

LIMITS = Limits()


def payload(delivered: int = 0, cpu_us: int = 0, heap: int = 0) -> bytes:
    return State(True, False, delivered, cpu_us, heap).encode()[5:]


def test_as_many_frames_as_an_honest_process_sends_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """One state a turn of 55 µs and a yield with each, for a minute of CPU time."""
    now = 0.0
    monkeypatch.setattr("codemode.cells.conduct.time.monotonic", lambda: now)
    conduct = Conduct(LIMITS)
    for _ in range(600):
        now += 0.1
        for _ in range(1818):
            conduct.count(FromCell.STATE, 25)
            conduct.count(FromCell.YIELD, 0)


@pytest.mark.parametrize("kind", [FromCell.STATE, FromCell.YIELD, FromCell.WARN, 0, 200])
def test_a_flood_of_frames_that_bring_nothing_is_a_breach(kind: int) -> None:
    """After what a service that was busy elsewhere may find waiting."""
    conduct = Conduct(LIMITS)
    for _ in range(50_000):
        conduct.count(kind, 10)
    with pytest.raises(ProtocolError, match="a flood"):
        for _ in range(1_000_000):
            conduct.count(kind, 10)


def test_long_warnings_count_for_more() -> None:
    """A few thousand of seven kilobytes are a flood."""
    conduct = Conduct(LIMITS)
    with pytest.raises(ProtocolError):
        for _ in range(3000):
            conduct.count(FromCell.WARN, 7000)


def test_what_has_a_limit_of_its_own_is_no_flood() -> None:
    """Output, calls and stored values; and each allows a yield behind it."""
    conduct = Conduct(LIMITS)
    for _ in range(300_000):
        conduct.count(FromCell.TEXT, 1)
        conduct.count(FromCell.YIELD, 0)


@pytest.mark.parametrize(
    "told",
    [
        payload(delivered=3),
        payload(delivered=2**32 - 1),
        payload(cpu_us=LIMITS.cpu_ms * 1000 + 60_000_000),
        payload(heap=LIMITS.memory_mb * MIB + 2**40),
    ],
    ids=["one result too many", "very many results", "CPU time", "heap"],
)
def test_a_state_that_cannot_be_is_a_breach(told: bytes) -> None:
    """More than was given, or than the kernel lets it have."""
    with pytest.raises(ProtocolError):
        Conduct(LIMITS).state(told, 2)


def test_a_state_does_not_go_back() -> None:
    """Results that were taken in stay so."""
    conduct = Conduct(LIMITS)
    assert conduct.state(payload(delivered=2), 2).delivered == 2
    with pytest.raises(ProtocolError):
        conduct.state(payload(delivered=1), 2)


def test_one_key_again_and_again_is_a_breach() -> None:
    """An honest process sends the last write to each key alone."""
    writes = StoreWrites(1000)
    with pytest.raises(ProtocolError):
        for _ in range(20_000):
            writes.put("key", "1")
    assert writes == {"key": "1"}
