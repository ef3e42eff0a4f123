"""What the two tools take; how they are described to a model is what `codemode.tools.specs` says."""

from __future__ import annotations

from typing import Any, Final

from codemode.tools.schema import InputSchema

_COUNT: Final = {"type": "integer", "minimum": 0}

EXEC_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "source": {"type": "string", "description": "The JavaScript itself: no Markdown fence, no quotes around it."},
        "yield_time_ms": {
            **_COUNT,
            "description": "How long to wait for the end (default 10000). A script that takes longer goes on.",
        },
        "max_output_tokens": {**_COUNT, "description": "How much of the output is shown (default 10000)."},
    },
    "required": ["source"],
    "additionalProperties": False,
}
WAIT_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "cell_id": {"type": "string", "description": "The cell ID that exec told."},
        "yield_time_ms": {**_COUNT, "description": "How long to wait for the end (default 10000)."},
        "max_tokens": {**_COUNT, "description": "How much of the output is shown (default 10000)."},
        "terminate": {"type": "boolean", "description": "End the script now."},
    },
    "required": ["cell_id"],
    "additionalProperties": False,
}
CHECKS: Final = {"exec": InputSchema("exec", EXEC_SCHEMA), "wait": InputSchema("wait", WAIT_SCHEMA)}
