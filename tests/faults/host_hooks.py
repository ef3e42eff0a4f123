"""Hooks of an operator for the servers under test."""

from __future__ import annotations

import sys
from typing import Any

from codemode import Hook

BECAUSE = "commands wait for their end here"


def _wants(value: Any) -> Any:
    def function(payload: dict[str, Any]) -> dict[str, Any]:
        return {"hookSpecificOutput": {"updatedInput": {**payload["tool_input"], "waitUntilCompletion": value}}}

    return function


def _by_command(payload: dict[str, Any]) -> dict[str, Any]:
    """What the command names as `WANTS=…`, as Python."""
    _, _, wanted = payload["tool_input"]["cmd"].partition("# WANTS=")
    return _wants({"true": True, "false": False, "one": 1, "text": "true", "null": None, "list": []}[wanted])(payload)


waiting = [Hook(event="PreToolUse", matcher="^exec_command$", function=_by_command)]
leaving = [Hook(event="PreToolUse", matcher="^echo$", function=lambda _: sys.exit(3))]
