"""What to tell a model about a failure that models often cause."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Sequence
from typing import Final

_FENCE: Final = (
    "The source is wrapped in a Markdown fence. Send the raw JavaScript alone, without the lines of the fence (```)."
)
_QUOTED: Final = (
    "The source is JSON, not JavaScript. Send the raw JavaScript itself, not quoted and not inside an object."
)
_TYPESCRIPT: Final = "This looks like TypeScript. Send plain JavaScript, without type annotations."
_IMPORT: Final = (
    "import is not available: there are no modules here. Everything beyond JavaScript itself is in the global `tools`."
)

_MISSING: Final = {
    "console": "There is no console. Use text(value) to hand something over, or notify(value) to report progress.",
    "require": "There is no require and no Node module. Use the functions of the global `tools`.",
    "module": "There are no modules. Use the functions of the global `tools`, and text(value) to hand something over.",
    "fetch": "There is no network. Use the functions of the global `tools`.",
    "XMLHttpRequest": "There is no network. Use the functions of the global `tools`.",
    "process": "There is no process, this is not Node. Use the functions of the global `tools`.",
    "Buffer": "There is no Buffer, this is not Node. Use Uint8Array.",
    "setInterval": "There is no setInterval. Use setTimeout in a loop: await new Promise(r => setTimeout(r, 100)).",
}

_NOT_DEFINED: Final = re.compile(r"(\w+) is not defined")
_NO_FUNCTION: Final = re.compile(r"tools\.(.+) is not a function")
_TYPES: Final = re.compile(
    r"""[\w\])}]\s*\??:\s*(?:string|number|boolean|void|any|unknown|never|object|bigint|Promise<|Array<|Record<|Map<|Set<|\(|\{|[A-Z]\w*(?:<|\[\]|\s*[=,);{|&]))
      | ^\s*(?:export\s+)?(?:interface|enum|namespace|declare|abstract\s+class)\s+\w
      | ^\s*(?:export\s+)?type\s+\w+(?:<[^>]*>)?\s*=
      | \bas\s+(?:const|string|number|boolean|any|unknown|[A-Z]\w*|\{)
      | \bsatisfies\s+\w
      | \w<[\w\s,|\[\]]+>\s*\(
      | ^\s*import\s+type\b
      | \b(?:private|public|protected|readonly)\s+\w+
      | \w!\s*[.;)\]]""",
    re.VERBOSE | re.MULTILINE,
)
_MOST_READ: Final = 64 * 1024  # characters of a source that are looked at
_MOST_NAMED: Final = 3


def hint_for(kind: str, name: str | None, message: str, source: str, tools: Sequence[str]) -> str | None:
    """One line that helps a model to mend its script, for the mistakes that models make; else None.

    `tools` are the names under which the script could call tools.
    """
    text = source[:_MOST_READ].lstrip("\ufeff \t\r\n")
    if text.startswith(("// @exec", "//@exec")):
        text = text.partition("\n")[2].lstrip()
    if text.startswith("```"):
        return _FENCE
    if kind == "syntax_error":
        return _of_syntax(text, message)
    if kind != "script_error":
        return None
    if name == "ReferenceError" and (found := _NOT_DEFINED.fullmatch(message)):
        return _MISSING.get(found[1])
    if name == "TypeError" and (found := _NO_FUNCTION.search(message)):
        return _of_unknown_tool(found[1], tools)
    if name == "Error" and message == "Not supported" and re.search(r"\bimport\s*\(", text):
        return _IMPORT
    return None


def _of_syntax(text: str, message: str) -> str | None:
    if text[:1] in ('"', "{") and _is_json(text):
        return _QUOTED
    if "import" in message:
        return _IMPORT
    return _TYPESCRIPT if _TYPES.search(text) else None


def _is_json(text: str) -> bool:
    try:
        return isinstance(json.loads(text), str | dict)
    except (ValueError, RecursionError):
        return False


def _of_unknown_tool(wanted: str, tools: Sequence[str]) -> str | None:
    if wanted in tools:
        return None
    if not tools:
        return f"There is no tool {wanted[:100]}: this session has no tools."
    near = difflib.get_close_matches(wanted[:100], tools, n=_MOST_NAMED, cutoff=0.4)
    if near:
        return f"There is no tool {wanted[:100]}. The nearest are: {', '.join(near)}."
    return f"There is no tool {wanted[:100]}. ALL_TOOLS lists the {len(tools)} there are."
