"""Plays scripts in the engine that ships, without the service around it: a process of its own, one fork per script.

Reads one case as JSON per line from standard input and answers with one line: the JSON list of lines that say what
happened. A case has `source`, and besides it `tools`, `stored`, `limits`, `actions` and `typescript` (see README.md).
"""

from __future__ import annotations

import json
import os
import queue
import re
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import groupby
from typing import Any, Final

from codemode._bundled import bundled
from codemode.isolation import isolate
from codemode.isolation.ring import Ring
from codemode.isolation.stripping import Stripped, locate_unstripped, stripping
from codemode.isolation.syntax import Place, locate

PATIENCE: Final = 10  # seconds of a case, after which the system ends it
MOST: Final = 64 << 20
LONG: Final = 400  # characters of a text that is shown as it is
NAME: Final = "entry_points"
LIMITS: Final = {"max_tool_input_bytes": 1 << 20, "max_store_bytes": 4 << 20}
DONE: Final = 8
SYNTAX: Final = 9
KINDS: Final = {1: "text", 2: "item", 3: "call", 4: "notify", 5: "yield", 6: "store", 7: "warn", 8: "done", 9: "syntax"}
# As a worker does with a spare, so that the script finds what it would find there.
REHEARSAL: Final = {
    "source": "text('a'); store('k', 1); await tools.a({}); return 1",
    "tools": [["a", "function", ""]],
    "stored": {},
    "limits": LIMITS,
    "rehearsal": True,
}

Say = Callable[[str], None]


def visible(text: str) -> str:
    """With all that cannot be seen named."""
    return "".join(c if c.isprintable() else f"<U+{ord(c):04X}>" for c in text)


def runs(text: str) -> str:
    """A long text by its runs of one character, so that a reader sees what it holds."""
    parts = [(character, len(list(group))) for character, group in groupby(text)]
    if len(parts) > 60:
        return f"{visible(text[:40])} ... {visible(text[-40:])}"
    return " ".join(visible(c) if times == 1 else f"{visible(c)}×{times}" for c, times in parts)


def shown(text: str) -> str:
    """A text in one line, or its lines below; between bars if blanks stand at its ends."""
    if text == "":
        return ""
    if len(text) > LONG:
        return f" of {len(text)} characters: {runs(text)}"
    if "\n" in text:
        return "".join(f"\n  | {visible(line)}" for line in text.split("\n"))
    return f" |{visible(text)}|" if text.strip() != text else f" {visible(text)}"


def failure(told: dict[str, Any]) -> str:
    place = "nowhere" if told["line"] is None else f"{told['line']}:{told['column']}"
    name = "a value" if told["name"] is None else visible(told["name"])
    return f"{name} at {place}, message{shown(told['message'])}\ntext{shown(told['text'])}"


class Play:
    """One script from its start to its end."""

    def __init__(self, case: dict[str, Any], program: str, say: Say, stripper: str = "") -> None:
        self.case = case
        self.source: str = case.get("source", "")
        self.stripper = stripper
        self.unparsed: dict[str, Any] | None = None  # a source whose types are to be taken out
        self.say_now = say
        self.steps_taken: list[str] = []
        self.isolate = isolate.Isolate()
        self.isolate.evaluate(program)
        self.ring = Ring(self.isolate.evaluate(f"{NAME}.ring"), MOST)
        self.calls: dict[int, str] = {}  # in flight: their inputs
        self.due: float | None = None
        self.began = time.monotonic()
        self.skipped: float = 0
        self.ended = False

    def rehearse(self) -> None:
        self.isolate.evaluate(f"{NAME}.start(0, {json.dumps(json.dumps(REHEARSAL))})")
        self.isolate.evaluate(f'{NAME}.deliver(0, 1, true, "[1]")')
        self.isolate.evaluate(f"{NAME}.status()")
        self.ring.drain()

    def run(self) -> None:
        kinds = [tool.partition(":")[::2] for tool in self.case.get("tools", ["echo"])]
        config = {
            "source": self.case["source"],
            "tools": [[name, kind or "function", f"The tool {name}."] for name, kind in kinds],
            "stored": {key: json.dumps(value) for key, value in self.case.get("stored", {}).items()},
            "limits": LIMITS | self.case.get("limits", {}),
        }
        self.turn(f"{NAME}.start(0, {json.dumps(json.dumps(config))})")
        if self.unparsed is not None:
            self.strip(self.unparsed)
        for action in self.case.get("actions", []):
            for step in self.steps(action):
                if self.ended:
                    return
                self.announce(step)
                self.act(step)
        if not self.ended:
            self.say(f"waits for {len(self.calls)} calls" + (" and a timer" if self.due is not None else ""))

    def strip(self, told: dict[str, Any]) -> None:
        """What a worker does with a source that does not parse, in a session that accepts TypeScript."""
        stripped = Stripped.read(self.isolate.evaluate(stripping(self.stripper, self.source)))
        self.ended = stripped.text is None
        if stripped.text is None:
            self.say(self.syntax(told, locate_unstripped(self.isolate, self.source, stripped)))
        else:
            self.source = stripped.text
            self.turn(f"{NAME}.startAgain({self.now()}, {json.dumps(stripped.text)})")

    def announce(self, step: str) -> None:
        """Remember which step comes: it is said with what comes of it, and how often nothing did before."""
        self.steps_taken.append(step)

    def say(self, line: str) -> None:
        for step, times in ((step, len(list(same))) for step, same in groupby(self.steps_taken)):
            self.say_now(f"> {step}" + (f" ×{times}" if times > 1 else ""))
        self.steps_taken.clear()
        self.say_now(line)

    def steps(self, action: str) -> Iterator[str]:
        """An action, or the many that it stands for."""
        if action == "fire all":
            while self.due is not None:
                yield "fire"
        elif action == "echo all":
            while self.calls:
                number = min(self.calls)
                yield f"deliver {number} ok {self.calls[number]}"
        else:
            yield action

    def act(self, step: str) -> None:
        verb, _, rest = step.partition(" ")
        if verb == "fire":
            self.skipped += max(0, (self.due or 0) - self.now())
            self.turn(f"{NAME}.fire({self.now()})")
        elif verb == "deliver":
            number, how, payload = rest.split(" ", 2)
            self.calls.pop(int(number), None)
            text = json.loads(payload) if how == "error" else payload
            self.turn(f"{NAME}.deliver({self.now()}, {number}, {json.dumps(how == 'ok')}, {json.dumps(text)})")
        else:
            raise ValueError(f"{step}: no such action")

    def now(self) -> float:
        """Milliseconds since the start, and what was skipped: timers made later are due later, as with a worker."""
        return (time.monotonic() - self.began) * 1000 + self.skipped

    def turn(self, code: str) -> None:
        """Run `code` and all microtasks that follow."""
        self.isolate.post(code)
        number = self.isolate.post(f"{NAME}.status()")
        while True:
            try:
                status = self.isolate.wait(number, 0.001)
                break
            except queue.Empty:
                self.carry()
                if self.ended:
                    return
            except isolate.EvaluationError as problem:
                self.say(f"FAULT: the isolate raised {visible(str(problem))}")
        self.carry()
        if self.ended:
            return
        if status == "ended" or not re.fullmatch(r"\[\d+,(null|\d+(\.\d+)?)\]", status):
            self.say(f"FAULT: the status is {visible(str(status))}")
            self.ended = True
            return
        in_flight, self.due = json.loads(status)
        if in_flight != len(self.calls):
            self.say(f"FAULT: the status says {in_flight} calls, there are {len(self.calls)}")

    def carry(self) -> None:
        for kind, payload in self.ring.drain():
            text = payload.decode()
            if self.ended:
                self.say(f"FAULT: a record after the end: {kind}{shown(text)}")
            elif kind == 3:
                number, index, json_text = text.split(" ", 2)
                json.loads(json_text)
                self.calls[int(number)] = json_text
                self.say(f"call {number} {self.case.get('tools', ['echo'])[int(index)]}{shown(json_text)}")
            elif kind == 6:
                key, _, value = text.partition("\n")
                self.say(f"store {key} = {shown(value)[1:]}" if value else f"store {key} deleted")
            elif kind in (DONE, SYNTAX):
                told = json.loads(text)
                if kind == SYNTAX and self.case.get("typescript") and self.unparsed is None:
                    self.unparsed = told
                else:
                    self.ended = True
                    self.say(self.end(kind, told))
            else:
                self.say(f"{KINDS.get(kind, f'FAULT: kind {kind}')}{shown(text)}")

    def syntax(self, told: dict[str, Any], place: Place | None) -> str:
        if place is None:
            return f"syntax {failure(told)}"
        return f"syntax {told['name']} at {place.line}:{place.column}, message{shown(place.message)}"

    def end(self, kind: int, told: dict[str, Any]) -> str:
        if kind == SYNTAX:
            return self.syntax(told, locate(self.isolate, self.source))
        timers = f", {told['timers']} timers left" if told["timers"] else ""
        if told["status"] == "failed":
            return f"done failed{timers}: {failure(told['error'])}"
        return f"done {told['status']}{timers}{', halted' if told['halted'] else ''}"


def in_child(task: Callable[[Say], None]) -> list[str]:
    """What `task` says in a fork of this process, and how that ended if not well."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(ours)
        signal.alarm(PATIENCE)

        def say(line: str) -> None:
            os.write(theirs, (line + "\n").encode())

        try:
            task(say)
        except BaseException as problem:
            say(f"FAULT: the player raised {problem!r}")
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours, encoding="utf-8") as said:
        lines = said.read().split("\n")[:-1]
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return lines if status == 0 else [*lines, f"FAULT: the process ended with {status}"]


def counted(lines: Iterable[str]) -> Iterator[str]:
    """The lines, with many that are alike as one."""
    for line, same in groupby(lines):
        times = len(list(same))
        yield from [line] * times if times < 10 else [f"{line} ×{times}"]


def initialise(program: str) -> None:
    """Start V8 as the zygote does: no isolate is alive when it forks."""
    isolate.initialise()
    warm = isolate.Isolate()
    warm.evaluate(program)
    warm.close()


def main() -> None:
    program = bundled("runtime_js").program(NAME)
    stripper = bundled("runtime_js").stripper()
    initialise(program)

    def play(case: dict[str, Any], say: Say) -> None:
        script = Play(case, program, say, stripper)
        script.rehearse()
        script.run()

    for line in sys.stdin:
        case = json.loads(line)
        print(json.dumps(list(counted(in_child(partial(play, case))))), flush=True)


if __name__ == "__main__":
    main()
