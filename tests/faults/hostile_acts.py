"""What hostile cell processes do, by name. Loads nothing of the engine: the tests choose from it as well."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import time
from collections.abc import Callable
from typing import Any, NoReturn, Protocol

from codemode.isolation.wire import FromCell, State, ToCell, frame

MARK = "// hostile "
Misbehaviour = Callable[["HostileProcess"], object]
AFTER_START: dict[str, Misbehaviour] = {}
BEFORE_READY: dict[str, Misbehaviour] = {}
MIB = 1024 * 1024


def hostile(act: Misbehaviour) -> Misbehaviour:
    """It can be asked for by the name of the function."""
    AFTER_START[act.__name__] = act
    return act


class HostileProcess(Protocol):
    """What a misbehaviour has at hand, see hostile_zygote.py."""

    connection: socket.socket

    def say(self, *frames: bytes) -> None:
        """Write these."""

    def flood(self, piece: bytes, size: int = 1 << 16) -> NoReturn:
        """The same again and again, as fast as it is taken."""

    def hang(self) -> NoReturn:
        """Do nothing, hear nothing, obey nothing."""

    def read_frame(self) -> tuple[int, bytes]:
        """The next thing that the service says."""


def done(**told: Any) -> bytes:
    return frame(FromCell.DONE, json.dumps({"status": "completed", "kind": None, "timers": 0, **told}).encode())


def call(number: Any, index: Any = 3, text: bytes = b"{}") -> bytes:  # 3 is `echo`
    return frame(FromCell.CALL, f"{number} {index} ".encode() + text)


def state(delivered: int = 0, cpu_us: int = 1, heap: int = 1, *, idle: bool = True) -> bytes:
    return State(idle, False, delivered, cpu_us, heap).encode()


# Half a frame, and none


@hostile
def half_a_frame_then_silence(it: HostileProcess) -> None:
    it.say(frame(FromCell.TEXT, b"whole"), frame(FromCell.TEXT, b"broken off")[:8])


@hostile
def half_a_head_then_silence(it: HostileProcess) -> None:
    it.say(b"\x01\x00")


@hostile
def half_a_frame_then_exit(it: HostileProcess) -> None:
    it.say(frame(FromCell.TEXT, b"broken off")[:8])
    os._exit(0)


@hostile
def a_frame_of_4_gigabytes(it: HostileProcess) -> None:
    it.say(struct.pack("<IB", 0xFFFFFFFF, FromCell.TEXT))
    it.flood(b"x" * 4096)


@hostile
def a_frame_of_70_mebibytes(it: HostileProcess) -> None:
    it.say(struct.pack("<IB", 70 * MIB, FromCell.TEXT))
    it.flood(b"x" * 4096)


@hostile
def garbage(it: HostileProcess) -> None:
    it.flood(bytes(range(255, -1, -1)))


@hostile
def zeroes(it: HostileProcess) -> None:
    it.flood(b"\0")


@hostile
def a_frame_of_no_known_kind(it: HostileProcess) -> None:
    it.say(frame(200, b"what"))


@hostile
def a_frame_for_cells(it: HostileProcess) -> None:
    it.say(frame(ToCell.START + 100, b"{}"), frame(9, b"{}"))


@hostile
def ready_in_the_middle(it: HostileProcess) -> None:
    it.say(frame(FromCell.READY), frame(FromCell.READY))


# Calls


@hostile
def a_call_of_no_known_tool(it: HostileProcess) -> None:
    it.say(call(1, 10_000))


@hostile
def a_call_of_a_negative_tool(it: HostileProcess) -> None:
    it.say(call(1, -1))


@hostile
def a_call_of_a_tool_in_other_digits(it: HostileProcess) -> None:
    it.say(call(1, "\u0660"))


@hostile
def a_call_with_a_wrong_number(it: HostileProcess) -> None:
    it.say(call(2))


@hostile
def a_call_with_a_huge_number(it: HostileProcess) -> None:
    it.say(call("9" * 100_000))


@hostile
def a_call_twice(it: HostileProcess) -> None:
    it.say(call(1), call(1))


@hostile
def a_call_that_is_empty(it: HostileProcess) -> None:
    it.say(frame(FromCell.CALL))


@hostile
def a_call_without_json_then_exit(it: HostileProcess) -> None:
    """That call fails, as one whose input is nested too deeply does."""
    it.say(call(1, 0, b"\xff no JSON"))
    assert it.read_frame()[0] == ToCell.RESULT
    os._exit(0)


@hostile
def a_call_of_brackets_then_exit(it: HostileProcess) -> None:
    it.say(call(1, 0, b"[" * 1_000_000), call(2, 0, b"[" + b"[]," * 300_000 + b"1]"))
    os._exit(0)


@hostile
def a_flood_of_calls(it: HostileProcess) -> None:
    for number in range(1, 1_000_000):
        it.say(call(number))


# What is another cell's


@hostile
def the_end_of_another_cell(it: HostileProcess) -> None:
    """It can name another as it likes: what it says counts for itself."""
    it.say(done(cell_id="1", session_id="default", status="failed", kind="worker_crashed", message="of another"))


@hostile
def calls_of_another_cell(it: HostileProcess) -> None:
    it.say(frame(FromCell.CALL, b"call-1 0 {}"))


# Ends


@hostile
def an_end_twice(it: HostileProcess) -> None:
    it.say(done(), done(status="failed", kind="worker_crashed"), frame(FromCell.TEXT, b"late"), done())


@hostile
def an_end_and_a_flood(it: HostileProcess) -> None:
    it.say(done())
    it.flood(frame(FromCell.TEXT, b"late"))


def nonsense_end(name: str, payload: Callable[[], bytes]) -> None:
    def act(it: HostileProcess) -> None:
        it.say(frame(FromCell.DONE, payload()))

    AFTER_START[f"an_end_{name}"] = act


nonsense_end("of_nothing", lambda: b"")
nonsense_end("of_no_text", lambda: b"\xff\xfe\xfd")
nonsense_end("of_a_number", lambda: b"5")
nonsense_end("of_a_list", lambda: b"[1]")
nonsense_end("of_no_known_status", lambda: b'{"status":"fine","kind":null}')
nonsense_end("of_no_known_kind", lambda: b'{"status":"failed","kind":"bored"}')
nonsense_end("that_was_not_asked_for", lambda: b'{"status":"stopped","kind":null}')
nonsense_end("with_endless_timers", lambda: b'{"status":"completed","kind":null,"timers":1e999}')
nonsense_end("with_timers_of_many_digits", lambda: b'{"status":"completed","kind":null,"timers":' + b"9" * 4000 + b"}")
nonsense_end("with_an_odd_error", lambda: b'{"status":"failed","kind":"script_error","error":[]}')
nonsense_end(
    "with_an_odd_place",
    lambda: json.dumps(
        {"status": "failed", "kind": "script_error", "error": {"message": "", "text": "", "line": 10**30}}
    ).encode(),
)
nonsense_end("nested_deeply", lambda: b'{"status":' * 1_000_000)
nonsense_end("of_brackets", lambda: b"[" * 60_000_000)
nonsense_end("of_many_lists", lambda: b'{"status":"completed","kind":null,"x":[' + b"[]," * 19_000_000 + b"1]}")
nonsense_end("of_60_megabytes", lambda: b'{"status":"completed","kind":null,"x":"' + b"x" * 60_000_000 + b'"}')


# Records


@hostile
def an_item_of_nonsense(it: HostileProcess) -> None:
    it.say(frame(FromCell.ITEM, b'{"type":"image","image_url":5}'))


@hostile
def an_item_of_many_lists(it: HostileProcess) -> None:
    it.say(frame(FromCell.ITEM, b'{"type":"image","image_url":[' + b"[]," * 19_000_000 + b"1]}"))


@hostile
def a_stored_value_without_a_key(it: HostileProcess) -> None:
    it.say(frame(FromCell.STORE, b"[1]\n1"))


@hostile
def a_stored_key_of_many_lists(it: HostileProcess) -> None:
    it.say(frame(FromCell.STORE, b"[" + b"[]," * 19_000_000 + b"1]\n1"))


@hostile
def a_flood_of_stored_values(it: HostileProcess) -> None:
    for number in range(1_000_000):
        it.say(frame(FromCell.STORE, b'"key %d"\n"%b"' % (number, b"x" * 10_000)))


@hostile
def a_flood_of_one_stored_value(it: HostileProcess) -> None:
    it.flood(frame(FromCell.STORE, b'"key"\n1'))


# States


@hostile
def a_state_of_the_wrong_size(it: HostileProcess) -> None:
    it.say(frame(FromCell.STATE, b"short"))


@hostile
def a_state_that_has_more_results_than_were_given(it: HostileProcess) -> None:
    it.say(state(delivered=5))


@hostile
def a_state_that_used_centuries(it: HostileProcess) -> None:
    it.say(state(cpu_us=2**63))


@hostile
def a_state_with_exabytes(it: HostileProcess) -> None:
    it.say(state(heap=2**63))


# Floods


@hostile
def a_flood_of_text(it: HostileProcess) -> None:
    it.flood(frame(FromCell.TEXT, b"text"))


@hostile
def a_flood_of_empty_text(it: HostileProcess) -> None:
    it.flood(frame(FromCell.TEXT))


@hostile
def a_flood_of_notifications(it: HostileProcess) -> None:
    it.flood(frame(FromCell.NOTIFY, b"n"))


@hostile
def a_flood_of_yields(it: HostileProcess) -> None:
    it.flood(frame(FromCell.YIELD))


@hostile
def a_flood_of_warnings(it: HostileProcess) -> None:
    it.flood(frame(FromCell.WARN, b"warning"))


@hostile
def a_flood_of_long_warnings(it: HostileProcess) -> None:
    it.flood(frame(FromCell.WARN, b"warning" * 1000))


@hostile
def a_flood_of_states(it: HostileProcess) -> None:
    it.flood(state())


@hostile
def a_flood_of_empty_frames(it: HostileProcess) -> None:
    it.flood(frame(0))


# The process


@hostile
def an_early_exit_with_status_0(_: HostileProcess) -> None:
    os._exit(0)


@hostile
def an_early_exit_with_status_1(_: HostileProcess) -> None:
    os._exit(1)


@hostile
def a_segmentation_fault(_: HostileProcess) -> None:
    signal.signal(signal.SIGSEGV, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGSEGV)


@hostile
def its_own_sigkill(it: HostileProcess) -> None:
    it.say(frame(FromCell.TEXT, b"before"))
    os.kill(os.getpid(), signal.SIGKILL)


@hostile
def deaf(it: HostileProcess) -> None:
    """It says something and then obeys nothing, STOP neither."""
    it.say(frame(FromCell.TEXT, b"here"))


@hostile
def deaf_and_loud(it: HostileProcess) -> None:
    """It writes slowly enough to be let, and obeys nothing."""
    while True:
        it.say(frame(FromCell.TEXT, b"la"))
        time.sleep(0.01)


@hostile
def many_calls_and_takes_no_result(it: HostileProcess) -> None:
    """It never reads: whatever is handed in has to wait in the service."""
    it.say(*[call(number, 0, b'{"size":1000000}') for number in range(1, 1001)])


@hostile
def closes_its_socket_and_lives_on(it: HostileProcess) -> None:
    it.say(frame(FromCell.TEXT, b"bye"))
    it.connection.close()


@hostile
def leaves_its_socket_to_a_grandchild(it: HostileProcess) -> None:
    if os.fork():
        os._exit(0)
    if os.fork():
        os._exit(0)
    os.setsid()


@hostile
def leaves_its_socket_to_a_grandchild_and_ends_well(it: HostileProcess) -> None:
    if os.fork():
        it.say(frame(FromCell.TEXT, b"whole"), done())
        os._exit(0)


# Before it is ready


def before_ready(act: Misbehaviour) -> Misbehaviour:
    BEFORE_READY[act.__name__] = act
    return act


@before_ready
def never_ready(it: HostileProcess) -> None:
    it.hang()


@before_ready
def ready_by_halves(it: HostileProcess) -> None:
    it.say(frame(FromCell.READY)[:3])


@before_ready
def dead_at_once(_: HostileProcess) -> None:
    os._exit(1)


@before_ready
def talks_before_it_is_ready(it: HostileProcess) -> None:
    it.say(done())
