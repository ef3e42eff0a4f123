"""The ways in which a cell fails for another reason than its script, in words."""

from __future__ import annotations

import asyncio
import signal
from typing import Final

from codemode.cells.observation import ErrorKind, ScriptError
from codemode.isolation.process import CellProcess
from codemode.isolation.zygote_messages import Exit
from codemode.limits import MIB, Limits

_DEADLOCK: Final = (
    "the script waits for something that nothing can settle any more: no tool call is in flight and no timer is pending"
)

_EXIT_REPORT_S: Final = 0.5
_ABORTS: Final = (signal.SIGTRAP, signal.SIGABRT, signal.SIGILL)


def failure(kind: ErrorKind, limits: Limits, message: str = "") -> ScriptError:
    """The error of a cell that was ended by a limit or lost."""
    said = {
        "out_of_memory": f"the cell used more than its {limits.memory_mb} MiB of memory",
        "cpu_limit": f"the script used more than its {limits.cpu_ms} ms of CPU time",
        "deadline": message,
        "output_limit": f"the script wrote more than its {limits.max_output_bytes} bytes of output "
        "(each item counts 64 bytes beside its text)",
        "tool_call_limit": f"the script made more than its {limits.max_tool_calls} tool calls",
        "deadlock": _DEADLOCK,
        "worker_crashed": f"the process of the cell was lost: {message or 'it ended by itself'}",
    }
    return ScriptError(kind, None, said.get(kind, message))


async def of_loss(process: CellProcess, limits: Limits) -> ScriptError:
    """Why a process ended without saying so; waits a moment for the report of how it ended."""
    await asyncio.wait([process.exit], timeout=_EXIT_REPORT_S)
    return of_exit(process.exit.result() if process.exit.done() else None, limits)


def was_killed(process: CellProcess) -> bool:
    """Whether somebody outside has killed it, as far as is known."""
    exit_ = process.exit.result() if process.exit.done() else None
    return exit_ is not None and exit_.status & 0x7F == signal.SIGKILL


def of_exit(exit_: Exit | None, limits: Limits) -> ScriptError:
    """The failure that a report of an end stands for."""
    if exit_ is None:
        return failure("worker_crashed", limits)
    killer = exit_.status & 0x7F
    # V8 aborts when it gets no more memory; sometimes it says so, always it has grown to about its limit by then.
    if exit_.said_out_of_memory or (killer in _ABORTS and exit_.grown_bytes > limits.memory_mb * MIB // 2):
        return failure("out_of_memory", limits)
    if killer == signal.SIGXCPU:
        return failure("cpu_limit", limits)
    if killer:
        known = {known.value: known.name for known in signal.Signals}
        return failure("worker_crashed", limits, f"it was ended by {known.get(killer, f'signal {killer}')}")
    return failure("worker_crashed", limits)
