"""What the tools say of themselves, and which inputs and answers fit that."""

from __future__ import annotations

from typing import Any

import pytest

from codemode.processes.table import Processes
from codemode.processes.tools import command_tools
from codemode.tools.command import CommandHandler
from codemode.tools.schema import InputSchema
from codemode.tools.tool import Tool
from tests.unit.test_processes.process_helpers import call


def tool(processes: Processes, name: str) -> Tool:
    return next(each for each in command_tools(processes) if each.name == name)


@pytest.mark.parametrize(
    ("name", "given", "fits"),
    [
        ("exec_command", {"cmd": "ls"}, True),
        ("exec_command", {"cmd": "ls", "with_escalated_permissions": True, "justification": "to see"}, True),
        ("exec_command", {"cmd": "ls", "workdir": "a", "shell": "sh", "login": True, "tty": True}, True),
        ("exec_command", {"cmd": "ls", "yield_time_ms": 0, "max_output_tokens": 0}, True),
        ("exec_command", {"cmd": "ls", "yield_time_ms": 3_600_001}, False),
        ("exec_command", {"cmd": "ls", "yield_time_ms": -1}, False),
        ("exec_command", {"cmd": ["ls"]}, False),
        ("exec_command", {"cmd": "ls", "other": 1}, False),
        ("exec_command", {}, False),
        ("write_stdin", {"session_id": 1000}, True),
        ("write_stdin", {"session_id": "1000"}, False),
        ("write_stdin", {"session_id": 1000, "chars": "x", "yield_time_ms": 5, "max_output_tokens": 5}, True),
        ("shell_command", {"command": "ls", "workdir": ".", "timeout_ms": 1}, True),
        ("shell_command", {"command": "ls", "timeout_ms": 0}, False),
    ],
)
async def test_inputs(processes: Processes, name: str, given: dict[str, Any], fits: bool) -> None:
    assert (InputSchema(name, tool(processes, name).input_schema).fault(given) is None) == fits


async def test_answers_fit_what_is_declared(processes: Processes) -> None:
    for name, given in [
        ("exec_command", {"cmd": "echo a"}),
        ("exec_command", {"cmd": "sleep 100", "yield_time_ms": 0}),
        ("write_stdin", {"session_id": 1001, "yield_time_ms": 0}),
        ("shell_command", {"command": "echo a"}),
        ("shell_command", {"command": "sleep 100", "timeout_ms": 10}),
    ]:
        answer = await call(processes, name, **given)
        assert InputSchema(name, tool(processes, name).output_schema).fault(answer.output) is None


async def test_the_command_is_told_beforehand(processes: Processes) -> None:
    told = {}
    for name in ("exec_command", "write_stdin", "shell_command"):
        handler = tool(processes, name).handler
        assert isinstance(handler, CommandHandler)
        told[name] = handler.command_of
    assert told["write_stdin"] is None
    assert told["exec_command"] is not None
    assert told["exec_command"]({"cmd": "ls", "workdir": "a"}) == ("ls", "a")
    assert told["shell_command"] is not None
    assert told["shell_command"]({"command": "ls"}) == ("ls", ".")
