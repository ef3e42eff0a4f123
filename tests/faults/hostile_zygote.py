"""Run as a program in the zygote's place: the real zygote, whose cell processes misbehave on demand.

A script whose source is `// hostile NAME` does not run in V8: the process does what `NAME` stands for
below. Every other script runs as usual. `--spares NAME:COUNT` lets the first COUNT processes misbehave
before they are ready, `--zygote NAME` the zygote itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable
from typing import Any, NoReturn

from codemode.isolation import worker, zygote, zygote_messages
from codemode.isolation.wire import FromCell, State, ToCell, frame

MARK = "// hostile "
Misbehaviour = Callable[["HostileWorker"], object]
AFTER_START: dict[str, Misbehaviour] = {}
BEFORE_READY: dict[str, Misbehaviour] = {}
MIB = 1024 * 1024


def hostile(act: Misbehaviour) -> Misbehaviour:
    """It can be asked for by the name of the function."""
    AFTER_START[act.__name__] = act
    return act


class HostileWorker(worker.Worker):
    """A worker that is taken over when its script starts."""

    def _start(self, payload: bytes) -> None:
        source = json.loads(payload)["source"]
        if not source.startswith(MARK):
            return super()._start(payload)
        self.act(AFTER_START[source.removeprefix(MARK)])

    def act(self, misbehaviour: Misbehaviour) -> NoReturn:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            misbehaviour(self)
            self.hang()
        os._exit(0)

    def say(self, *frames: bytes) -> None:
        self._socket.sendall(b"".join(frames))

    def flood(self, piece: bytes, size: int = 1 << 16) -> NoReturn:
        """The same again and again, as fast as it is taken."""
        data = piece * max(1, size // len(piece))
        while True:
            self._socket.sendall(data)

    def hang(self) -> NoReturn:
        """Do nothing, hear nothing, obey nothing."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)
        while True:
            time.sleep(3600)

    def read_frame(self) -> tuple[int, bytes]:
        while True:
            for found in self._receive():
                return found


def done(**told: Any) -> bytes:
    return frame(FromCell.DONE, json.dumps({"status": "completed", "kind": None, "timers": 0, **told}).encode())


def call(number: Any, index: Any = 3, text: bytes = b"{}") -> bytes:  # 3 is `echo`
    return frame(FromCell.CALL, f"{number} {index} ".encode() + text)


def state(delivered: int = 0, cpu_us: int = 1, heap: int = 1, *, idle: bool = True) -> bytes:
    return State(idle, False, delivered, cpu_us, heap).encode()


# Half a frame, and none


@hostile
def half_a_frame_then_silence(it: HostileWorker) -> None:
    it.say(frame(FromCell.TEXT, b"whole"), frame(FromCell.TEXT, b"broken off")[:8])


@hostile
def half_a_head_then_silence(it: HostileWorker) -> None:
    it.say(b"\x01\x00")


@hostile
def half_a_frame_then_exit(it: HostileWorker) -> None:
    it.say(frame(FromCell.TEXT, b"broken off")[:8])
    os._exit(0)


@hostile
def a_frame_of_4_gigabytes(it: HostileWorker) -> None:
    it.say(struct.pack("<IB", 0xFFFFFFFF, FromCell.TEXT))
    it.flood(b"x" * 4096)


@hostile
def a_frame_of_70_mebibytes(it: HostileWorker) -> None:
    it.say(struct.pack("<IB", 70 * MIB, FromCell.TEXT))
    it.flood(b"x" * 4096)


@hostile
def garbage(it: HostileWorker) -> None:
    it.flood(bytes(range(255, -1, -1)))


@hostile
def zeroes(it: HostileWorker) -> None:
    it.flood(b"\0")


@hostile
def a_frame_of_no_known_kind(it: HostileWorker) -> None:
    it.say(frame(200, b"what"))


@hostile
def a_frame_for_cells(it: HostileWorker) -> None:
    it.say(frame(ToCell.START + 100, b"{}"), frame(9, b"{}"))


@hostile
def ready_in_the_middle(it: HostileWorker) -> None:
    it.say(frame(FromCell.READY), frame(FromCell.READY))


# Calls


@hostile
def a_call_of_no_known_tool(it: HostileWorker) -> None:
    it.say(call(1, 10_000))


@hostile
def a_call_of_a_negative_tool(it: HostileWorker) -> None:
    it.say(call(1, -1))


@hostile
def a_call_of_a_tool_in_other_digits(it: HostileWorker) -> None:
    it.say(call(1, "\u0660"))


@hostile
def a_call_with_a_wrong_number(it: HostileWorker) -> None:
    it.say(call(2))


@hostile
def a_call_with_a_huge_number(it: HostileWorker) -> None:
    it.say(call("9" * 100_000))


@hostile
def a_call_twice(it: HostileWorker) -> None:
    it.say(call(1), call(1))


@hostile
def a_call_that_is_empty(it: HostileWorker) -> None:
    it.say(frame(FromCell.CALL))


@hostile
def a_call_without_json_then_exit(it: HostileWorker) -> None:
    """That call fails, as one whose input is nested too deeply does."""
    it.say(call(1, 0, b"\xff no JSON"))
    assert it.read_frame()[0] == ToCell.RESULT
    os._exit(0)


@hostile
def a_call_of_brackets_then_exit(it: HostileWorker) -> None:
    it.say(call(1, 0, b"[" * 1_000_000), call(2, 0, b"[" + b"[]," * 300_000 + b"1]"))
    os._exit(0)


@hostile
def a_flood_of_calls(it: HostileWorker) -> None:
    for number in range(1, 1_000_000):
        it.say(call(number))


# What is another cell's


@hostile
def the_end_of_another_cell(it: HostileWorker) -> None:
    """It can name another as it likes: what it says counts for itself."""
    it.say(done(cell_id="1", session_id="default", status="failed", kind="worker_crashed", message="of another"))


@hostile
def calls_of_another_cell(it: HostileWorker) -> None:
    it.say(frame(FromCell.CALL, b"call-1 0 {}"))


# Ends


@hostile
def an_end_twice(it: HostileWorker) -> None:
    it.say(done(), done(status="failed", kind="worker_crashed"), frame(FromCell.TEXT, b"late"), done())


@hostile
def an_end_and_a_flood(it: HostileWorker) -> None:
    it.say(done())
    it.flood(frame(FromCell.TEXT, b"late"))


def nonsense_end(name: str, payload: Callable[[], bytes]) -> None:
    def act(it: HostileWorker) -> None:
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
def an_item_of_nonsense(it: HostileWorker) -> None:
    it.say(frame(FromCell.ITEM, b'{"type":"image","image_url":5}'))


@hostile
def an_item_of_many_lists(it: HostileWorker) -> None:
    it.say(frame(FromCell.ITEM, b'{"type":"image","image_url":[' + b"[]," * 19_000_000 + b"1]}"))


@hostile
def a_stored_value_without_a_key(it: HostileWorker) -> None:
    it.say(frame(FromCell.STORE, b"[1]\n1"))


@hostile
def a_stored_key_of_many_lists(it: HostileWorker) -> None:
    it.say(frame(FromCell.STORE, b"[" + b"[]," * 19_000_000 + b"1]\n1"))


@hostile
def a_flood_of_stored_values(it: HostileWorker) -> None:
    for number in range(1_000_000):
        it.say(frame(FromCell.STORE, b'"key %d"\n"%b"' % (number, b"x" * 10_000)))


@hostile
def a_flood_of_one_stored_value(it: HostileWorker) -> None:
    it.flood(frame(FromCell.STORE, b'"key"\n1'))


# States


@hostile
def a_state_of_the_wrong_size(it: HostileWorker) -> None:
    it.say(frame(FromCell.STATE, b"short"))


@hostile
def a_state_that_has_more_results_than_were_given(it: HostileWorker) -> None:
    it.say(state(delivered=5))


@hostile
def a_state_that_used_centuries(it: HostileWorker) -> None:
    it.say(state(cpu_us=2**63))


@hostile
def a_state_with_exabytes(it: HostileWorker) -> None:
    it.say(state(heap=2**63))


# Floods


@hostile
def a_flood_of_text(it: HostileWorker) -> None:
    it.flood(frame(FromCell.TEXT, b"text"))


@hostile
def a_flood_of_empty_text(it: HostileWorker) -> None:
    it.flood(frame(FromCell.TEXT))


@hostile
def a_flood_of_notifications(it: HostileWorker) -> None:
    it.flood(frame(FromCell.NOTIFY, b"n"))


@hostile
def a_flood_of_yields(it: HostileWorker) -> None:
    it.flood(frame(FromCell.YIELD))


@hostile
def a_flood_of_warnings(it: HostileWorker) -> None:
    it.flood(frame(FromCell.WARN, b"warning"))


@hostile
def a_flood_of_long_warnings(it: HostileWorker) -> None:
    it.flood(frame(FromCell.WARN, b"warning" * 1000))


@hostile
def a_flood_of_states(it: HostileWorker) -> None:
    it.flood(state())


@hostile
def a_flood_of_empty_frames(it: HostileWorker) -> None:
    it.flood(frame(0))


# The process


@hostile
def an_early_exit_with_status_0(_: HostileWorker) -> None:
    os._exit(0)


@hostile
def an_early_exit_with_status_1(_: HostileWorker) -> None:
    os._exit(1)


@hostile
def a_segmentation_fault(_: HostileWorker) -> None:
    signal.signal(signal.SIGSEGV, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGSEGV)


@hostile
def its_own_sigkill(it: HostileWorker) -> None:
    it.say(frame(FromCell.TEXT, b"before"))
    os.kill(os.getpid(), signal.SIGKILL)


@hostile
def deaf(it: HostileWorker) -> None:
    """It says something and then obeys nothing, STOP neither."""
    it.say(frame(FromCell.TEXT, b"here"))


@hostile
def deaf_and_loud(it: HostileWorker) -> None:
    """It writes slowly enough to be let, and obeys nothing."""
    while True:
        it.say(frame(FromCell.TEXT, b"la"))
        time.sleep(0.01)


@hostile
def many_calls_and_takes_no_result(it: HostileWorker) -> None:
    """It never reads: whatever is handed in has to wait in the service."""
    it.say(*[call(number, 0, b'{"size":1000000}') for number in range(1, 1001)])


@hostile
def closes_its_socket_and_lives_on(it: HostileWorker) -> None:
    it.say(frame(FromCell.TEXT, b"bye"))
    it._socket.close()


@hostile
def leaves_its_socket_to_a_grandchild(it: HostileWorker) -> None:
    if os.fork():
        os._exit(0)
    if os.fork():
        os._exit(0)
    os.setsid()


@hostile
def leaves_its_socket_to_a_grandchild_and_ends_well(it: HostileWorker) -> None:
    if os.fork():
        it.say(frame(FromCell.TEXT, b"whole"), done())
        os._exit(0)


# Before it is ready


def before_ready(act: Misbehaviour) -> Misbehaviour:
    BEFORE_READY[act.__name__] = act
    return act


@before_ready
def never_ready(it: HostileWorker) -> None:
    it.hang()


@before_ready
def ready_by_halves(it: HostileWorker) -> None:
    it.say(frame(FromCell.READY)[:3])


@before_ready
def dead_at_once(_: HostileWorker) -> None:
    os._exit(1)


@before_ready
def talks_before_it_is_ready(it: HostileWorker) -> None:
    it.say(done())


class HostileZygote(zygote.Zygote):
    """Counts its processes, so that the first ones can misbehave."""

    forks = 0

    def fork(self, *, at_once: bool) -> None:
        type(self).forks += 1
        super().fork(at_once=at_once)


def main(spares: str, in_zygote: str, descriptor: str) -> None:
    control = socket.socket(fileno=int(descriptor))
    if in_zygote == "silent":
        time.sleep(3600)
    elif in_zygote == "garbage":
        control.sendall(zygote_messages.message(zygote_messages.STARTED, os.getpid()))
        control.recv(10)
        control.sendall(b"\xff" * 100)
        time.sleep(3600)
    elif in_zygote == "spawns nobody":
        control.sendall(zygote_messages.message(zygote_messages.STARTED, os.getpid()))
        control.recv(10)
        control.sendall(zygote_messages.message(zygote_messages.SPAWNED, 0))
        time.sleep(3600)
    control.detach()
    name, _, count = spares.partition(":")
    serve = worker.Worker.run

    def run(self: worker.Worker, *, rehearse: bool) -> None:
        if name and HostileZygote.forks <= int(count):
            assert isinstance(self, HostileWorker)
            self.act(BEFORE_READY[name])
        serve(self, rehearse=rehearse)

    HostileWorker.run = run  # type: ignore[method-assign]
    worker.Worker = HostileWorker  # type: ignore[misc]
    zygote.Zygote = HostileZygote  # type: ignore[misc]
    sys.argv = [sys.argv[0], descriptor]
    zygote.main()


if __name__ == "__main__":
    main(*sys.argv[1:])
