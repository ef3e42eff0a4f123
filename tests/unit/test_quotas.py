"""What one tenant may use: the bucket as a machine, and that a refusal counts nothing."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from codemode import CodeMode
from codemode.errors import TooManyCells, TooManyExecs
from codemode.keys.quotas import Quotas, TokenBucket
from codemode.limits import Limits

CAPACITY, PER_SECOND = 5, 0.5


class BucketMachine(RuleBasedStateMachine):
    """Takes and lets time pass, as it comes; compares with a list of what has passed."""

    def __init__(self) -> None:
        super().__init__()
        self.bucket = TokenBucket(CAPACITY, PER_SECOND)
        self.now = 1000.0
        assert self.bucket.take(self.now) == 0
        self.passed = [self.now]

    @rule(seconds=st.floats(0, 20))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def take(self) -> None:
        wait = self.bucket.take(self.now)
        assert wait >= 0
        if wait == 0:
            self.passed.append(self.now)

    @rule()
    def wait_as_told(self) -> None:
        """After that time one passes, and not a moment earlier: the time that it tells is honest."""
        wait = self.bucket.take(self.now)
        if wait == 0:
            self.passed.append(self.now)
            return
        assert self.bucket.take(self.now + wait * 0.99) > 0
        self.now += wait + 1e-6
        assert self.bucket.take(self.now) == 0
        self.passed.append(self.now)

    @rule(back=st.floats(0.1, 100))
    def the_clock_goes_back(self, back: float) -> None:
        """Nothing is gained by it, and nothing when it goes on."""
        self.take()
        for seen in (self.now - back, self.now):
            if self.bucket.take(seen) == 0:
                self.passed.append(self.now)

    @invariant()
    def no_span_has_more_than_it_may(self) -> None:
        for first, start in enumerate(self.passed):
            for last in range(first, len(self.passed)):
                most = CAPACITY + (self.passed[last] - start) * PER_SECOND
                assert last - first + 1 <= most + 1e-3


TestBucket = BucketMachine.TestCase


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def quotas(clock: Clock | None = None, **limits: int) -> Quotas:
    return Quotas(Limits.of(limits), clock or Clock())


def test_live_cells_of_a_key() -> None:
    """As many as it may, and one more when one has ended; other keys have their own."""
    some = quotas(max_cells_key=2)
    for key in ("a", "a", "b"):
        some.admit(key)
    with pytest.raises(TooManyCells, match="the tenant has 2 live cells"):
        some.admit("a")
    some.admit("b")
    some.release("a")
    some.admit("a")


def test_execs_of_a_minute() -> None:
    """So many at once, then one each time that it says; other keys have their own."""
    clock = Clock()
    some = quotas(clock, execs_per_minute_key=3)
    for _ in range(3):
        some.admit("a")
    with pytest.raises(TooManyExecs) as caught:
        some.admit("a")
    assert caught.value.fields == {"retry_after_s": 20}
    some.admit("b")
    clock.now += 20
    some.admit("a")
    with pytest.raises(TooManyExecs):
        some.admit("a")


def test_what_is_refused_is_not_counted() -> None:
    """Neither by the one limit nor by the other."""
    clock = Clock()
    some = quotas(clock, max_cells_key=1, execs_per_minute_key=2)
    some.admit("a")
    for _ in range(5):
        with pytest.raises(TooManyCells):
            some.admit("a")
    some.release("a")
    some.admit("a")  # the second exec of two
    some.release("a")
    for _ in range(5):
        with pytest.raises(TooManyExecs):
            some.admit("a")
    clock.now += 30
    some.admit("a")


@example(1, [0.0, 0.0, 0.0, 0.5958115251943761, 0.4650630303429645, 0.0])
@given(st.integers(1, 100), st.lists(st.floats(0, 3), min_size=1, max_size=150))
def test_the_time_told_is_in_whole_seconds_and_enough(most: int, pauses: list[float]) -> None:
    """Who waits so long gets one."""
    clock = Clock()
    some = quotas(clock, execs_per_minute_key=most)
    for pause in pauses:
        clock.now += pause
        try:
            some.admit("a")
        except TooManyExecs as problem:
            clock.now += problem.fields["retry_after_s"]
            some.admit("a")
        some.release("a")


async def test_they_hold_without_keys() -> None:
    """The one who has no key is a tenant as others are; nothing ran, and no cell id is used up."""
    async with CodeMode(limits={"execs_per_minute_key": 2}, spares=0) as cm:
        first = await cm.exec("text(1)", idempotency_key="k")
        assert (await cm.exec("text(2)")).cell_id == "2"
        with pytest.raises(TooManyExecs):
            await cm.exec("text(3)")
        again = await cm.exec("text(1)", idempotency_key="k")
        assert (first.cell_id, again.cell_id, len(cm.default_session().cells())) == ("1", "1", 2)
