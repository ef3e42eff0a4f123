"""One V8 isolate. The only module that touches py_mini_racer.

It uses the engine's C interface through the library's ctypes handle, not its `MiniRacer` class:
that class runs an asyncio loop on a thread of its own and installs timers in JavaScript. Measured
with 0.14.1: 55 µs instead of 190 µs for a turn, one thread less per cell, and nothing of the
library's in the script's scope. The version is pinned for this reason.
"""

from __future__ import annotations

import ctypes
import json
import queue
from collections.abc import Iterable
from typing import Any, Final

from py_mini_racer._dll import init_mini_racer, mr_callback_func

FLAGS: Final = ("--single-threaded",)  # no worker threads in V8: the zygote has to fork

# Types of a value, from the library's _objects.py.
_BOOL, _INTEGER, _DOUBLE, _STRING, _SHARED_BUFFER = 2, 3, 4, 5, 101
_FIRST_EXCEPTION, _PARSE_ERROR, _OUT_OF_MEMORY = 200, 201, 202


class EvaluationError(Exception):
    """An evaluation ended with an exception; the message is V8's."""


class ParseError(EvaluationError):
    """The text did not parse; the message has the line and a marker below the place."""


class OutOfMemory(EvaluationError):
    """The memory limit of the isolate ended the evaluation."""


def initialise(flags: Iterable[str] = ()) -> None:
    """Start V8 in this process, once, before the first isolate."""
    init_mini_racer(flags=(*FLAGS, *flags))


def engine_version() -> str:
    """The version of V8, for example 14.4.258.23."""
    return str(init_mini_racer(ignore_duplicate_init=True).mr_v8_version().decode())


class Isolate:
    """A fresh isolate with a thread of its own that runs what is posted, in order.

    Only strings, numbers, booleans and the shared buffer come back as themselves. A string that
    holds a lone surrogate never comes back: the engine drops it.
    """

    def __init__(self) -> None:
        self._dll: Any = init_mini_racer(ignore_duplicate_init=True)
        self._answers: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
        answers = self._answers
        # Called on the isolate's thread; the isolate stands still until it returns.
        self._callback = mr_callback_func(lambda number, raw: answers.put((number, raw)))
        self._context: int = self._dll.mr_init_context(self._callback)
        self._posted = 0

    def close(self) -> None:
        """Free the isolate and end its thread."""
        self._dll.mr_free_context(self._context)

    def post(self, code: str) -> int:
        """Queue `code` for evaluation; returns the number to wait for."""
        text = code.encode()
        handle = self._dll.mr_alloc_string_val(self._context, text, len(text), _STRING)
        self._posted += 1
        self._dll.mr_eval(self._context, handle, self._posted)
        self._dll.mr_free_value(self._context, handle)
        return self._posted

    def wait(self, number: int, timeout: float | None = None) -> Any:
        """The value of evaluation `number`, waited for in seconds.

        Raises queue.Empty when the time is over (call again to go on waiting), and the
        EvaluationError of it or of one before it.
        """
        while True:
            answered, raw = self._answers.get(timeout=timeout)
            value = self._value(raw)
            if answered == number:
                return value

    def evaluate(self, code: str) -> Any:
        """Post and wait. The microtasks that `code` queues may not have run yet."""
        return self.wait(self.post(code))

    def limit_memory(self, most: int) -> None:
        """Let evaluations end with OutOfMemory when a collection leaves more than `most` bytes of heap."""
        self._dll.mr_set_hard_memory_limit(self._context, most)

    @property
    def is_out_of_memory(self) -> bool:
        """Whether that has happened; ending a continuation this way does not always raise."""
        return bool(self._dll.mr_hard_memory_limit_reached(self._context))

    def heap_bytes(self) -> int:
        """Size of the JavaScript heap in use; waits for the isolate to be idle."""
        raw = self._dll.mr_heap_stats(self._context)
        return int(json.loads(self._value(raw))["used_heap_size"])

    def _value(self, raw: Any) -> Any:
        content = raw.contents
        kind, length = content.type, content.len
        if kind == _SHARED_BUFFER:  # the handle is kept: it holds the memory
            return memoryview((ctypes.c_ubyte * length).from_address(content.value.value_ptr)).cast("B")
        value: Any = None
        if kind == _STRING or kind >= _FIRST_EXCEPTION:
            value = ctypes.string_at(content.value.value_ptr, length).decode("utf-8", "replace") if length else ""
        elif kind in (_BOOL, _INTEGER):
            value = content.value.int_val
        elif kind == _DOUBLE:
            value = content.value.double_val
        self._dll.mr_free_value(self._context, raw)
        if kind >= _FIRST_EXCEPTION:
            raise {_PARSE_ERROR: ParseError, _OUT_OF_MEMORY: OutOfMemory}.get(kind, EvaluationError)(value)
        return value
