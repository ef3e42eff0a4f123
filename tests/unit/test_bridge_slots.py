"""The slots for nested calls: never more at once than there are, first come first served."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from codemode.calls.slots import CallSlots


@dataclass
class Comer:
    """One that wants a slot; `wants_it` is what it says when its turn comes."""

    number: int
    wants_it: bool = True
    began: list[int] = field(default_factory=list)


class SlotsMachine(RuleBasedStateMachine):
    """Random comers and leavers against a model that keeps lists."""

    @initialize(size=st.integers(1, 4))
    def start(self, size: int) -> None:
        self.size = size
        self.slots = CallSlots(size)
        self.order: list[int] = []  # in which comers were asked
        self.comers: list[Comer] = []
        self.running: list[Comer] = []

    def begin(self, comer: Comer) -> Callable[[], bool]:
        def asked() -> bool:
            self.order.append(comer.number)
            if comer.wants_it:
                self.running.append(comer)
            return comer.wants_it

        return asked

    @rule(wants_it=st.booleans())
    def enter(self, wants_it: bool) -> None:
        comer = Comer(len(self.comers), wants_it)
        self.comers.append(comer)
        self.slots.enter(self.begin(comer))

    @precondition(lambda self: self.comers)
    @rule(which=st.integers(0, 1000))
    def give_up(self, which: int) -> None:
        """One that is still waiting wants none any more."""
        comer = self.comers[which % len(self.comers)]
        if comer.number not in self.order:
            comer.wants_it = False

    @precondition(lambda self: self.running)
    @rule(which=st.integers(0, 1000))
    def leave(self, which: int) -> None:
        self.running.pop(which % len(self.running))
        self.slots.leave()

    @invariant()
    def they_are_asked_in_order_and_once(self) -> None:
        if hasattr(self, "order"):
            assert self.order == list(range(len(self.order)))

    @invariant()
    def no_slot_is_left_empty_while_somebody_waits(self) -> None:
        if hasattr(self, "order"):
            waiting = len(self.comers) - len(self.order)
            assert len(self.running) <= self.size
            assert waiting == 0 or len(self.running) == self.size


TestSlots = SlotsMachine.TestCase


def test_one_that_leaves_while_it_begins_makes_room_for_the_next() -> None:
    """A call may end before its beginning returns, and others may come meanwhile."""
    slots = CallSlots(1)
    order: list[str] = []

    def noting(name: str) -> Callable[[], bool]:
        def begin() -> bool:
            order.append(name)
            return True

        return begin

    def short() -> bool:
        order.append("short")
        slots.enter(noting("inner"))
        slots.leave()
        return True

    slots.enter(short)
    slots.enter(noting("last"))
    slots.leave()
    assert order == ["short", "inner", "last"]
