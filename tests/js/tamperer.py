"""Runs tampering/script.js once per replaced builtin, each time in an isolate of its own; a process of its own.

`python -m tests.js.tamperer labels` prints what can be replaced. `… run MODE` reads the numbers of builtins, groups of
them one a line, and prints one line for each group: what the script did with all of it replaced.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

from codemode._bundled import bundled
from tests.js.player import NAME, Play, Say, in_child, initialise

FOLDER: Final = Path(__file__).resolve().parent / "tampering"
SCRIPT: Final = (FOLDER / "script.js").read_text(encoding="utf-8")
BATCH: Final = 25  # scripts a fork
ACTIONS: Final = ["deliver 1 ok {}", "fire", "echo all"]


def program() -> str:
    """The runtime with the probe in its place, and a way to it."""
    runtime = bundled("runtime_js")
    first = _expression(dict(runtime.sources())["00_primordials.js"])
    probe = _expression((FOLDER / "probe.js").read_text(encoding="utf-8"))
    text: str = runtime.program(NAME)
    for old, new in (
        ("new Promise(", "core.newPromise("),
        (first, f"{first}\n{probe}"),
        ("return core.host;", "return { __proto__: null, ...core.host, core };"),
    ):
        assert old in text, old
        text = text.replace(old, new)
    return text


def _expression(file: str) -> str:
    return f"({file.rstrip().removesuffix(';')})(core);"


def run(numbers: list[int], mode: str, text: str) -> list[str]:
    """What the script does while these builtins are replaced."""
    said: list[str] = []
    throws = mode == "throw"
    case: dict[str, Any] = {"source": SCRIPT, "actions": ACTIONS, "stored": {"ends by exit": True} if throws else {}}
    play = Play(case, text, said.append)
    play.rehearse()
    play.isolate.evaluate(f"{NAME}.core.shared()")
    play.ring.drain()
    play.isolate.evaluate(f"{NAME}.core.tamper({numbers}, {json.dumps(throws)})")
    play.run()
    if not throws:
        said += json.loads(play.isolate.evaluate(f"{NAME}.core.leaks({json.dumps(SCRIPT)})"))
        play.isolate.close()
    return said


def main() -> None:
    text = program()
    initialise(text)
    if sys.argv[1] == "labels":

        def tell(say: Say) -> None:
            say(Play({}, text, say).isolate.evaluate(f"{NAME}.core.labels()"))

        print(in_child(tell)[0])
        return
    groups = [json.loads(line) for line in sys.stdin]
    for start in range(0, len(groups), BATCH):

        def play(say: Say, batch: list[list[int]] = groups[start : start + BATCH]) -> None:
            for numbers in batch:
                say(json.dumps(run(numbers, sys.argv[2], text)))

        print("\n".join(in_child(play)), flush=True)


if __name__ == "__main__":
    main()
