"""Observations as MCP results."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any, Final
from urllib.parse import unquote_to_bytes

import mcp_types

from codemode.cells.observation import Observation

_DATA: Final = re.compile(r"data:([\w.+-]+/[\w.+-]+)((?:;[^;,]*)*),(.*)", re.DOTALL | re.IGNORECASE)


def result_of(seen: Observation) -> mcp_types.CallToolResult:
    """What a model is shown of an observation; an error if the script failed.

    Its `_meta` has the state for programs: `{"codemode": {"cell_id", "status"}}`.
    """
    return mcp_types.CallToolResult(
        content=[_block(item) for item in seen.model_output],
        is_error=seen.status == "failed",
        _meta={"codemode": {"cell_id": seen.cell_id, "status": seen.status}},
    )


def refusal(text: str) -> mcp_types.CallToolResult:
    """A call that did nothing."""
    return mcp_types.CallToolResult(content=[mcp_types.TextContent(text=text)], is_error=True)


def _block(item: dict[str, Any]) -> mcp_types.ContentBlock:
    match item:
        case {"type": "input_image", "image_url": str() as url}:
            found = _data(url)
            if found is not None:
                return mcp_types.ImageContent(mime_type=found[0], data=found[1])
            return mcp_types.ResourceLink(name="image", uri=url)
        case {"type": "input_audio", "audio_url": str() as url}:
            found = _data(url)
            if found is not None:
                return mcp_types.AudioContent(mime_type=found[0], data=found[1])
            return mcp_types.ResourceLink(name="audio", uri=url)
    return mcp_types.TextContent(text=str(item.get("text", "")))


def _data(url: str) -> tuple[str, str] | None:
    """The media type and the base64 text of a `data:` URL; None for any other URL."""
    found = _DATA.fullmatch(url)
    if found is None:
        return None
    if not found[2].lower().endswith(";base64"):
        return found[1], base64.b64encode(unquote_to_bytes(found[3])).decode()
    try:
        base64.b64decode(found[3], validate=True)
    except (binascii.Error, ValueError):
        return None
    return found[1], found[3]
