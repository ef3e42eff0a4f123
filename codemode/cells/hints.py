"""What to tell a model about a failure that models often cause."""

from __future__ import annotations

import difflib
import heapq
import itertools
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
_NOT_STRIPPED: Final = "This looks like TypeScript, which is accepted here, but its types could not be taken out."
_ERASABLE: Final = (
    "TypeScript is accepted as far as its types can be taken out. Write plain JavaScript for what needs code."
)
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
# Strings and comments may hold anything. One that is not closed goes on to the end: looking for its beginning again
# behind every quote in it took half a minute for 64 KiB.
_QUOTED_TEXT: Final = re.compile(
    r"""'(?:[^'\\\n]|\\.)*+'? | "(?:[^"\\\n]|\\.)*+"? | `(?:[^`\\]|\\.)*+`? | //[^\n]* | /\*(?:.*?\*/|.*)""",
    re.VERBOSE | re.DOTALL,
)
_TYPE: Final = r"(?:string|number|boolean|void|any|unknown|never|object|bigint|null|[A-Z]|\(|\{|\[)"
_ANNOTATION: Final = rf"[\w\])}}]\s*\??:\s*{_TYPE}"
# V8's message about a mistake, and what the source has to hold for it to be TypeScript's. `{}` is the message's word.
_TYPESCRIPT_SIGNS: Final = [
    (r"Missing initializer in \w+ declaration", rf"{_ANNOTATION}|<\s*{_TYPE}"),
    (r"Unexpected token ':'", _ANNOTATION),
    (r"Unexpected token '[?!<]'", rf"\w\?\s*:|\w!\s*[;.)\],\n]|\w<\s*{_TYPE}"),
    (r"Unexpected identifier '(?:as|satisfies)'", rf"\b(?:as|satisfies)\s+(?:const\b|{_TYPE})"),
    (r"Unexpected identifier '(\w+)'", r"\b(?:type|namespace|declare|private|public|protected|readonly)\s+{}\b"),
    (
        r"Unexpected (?:strict mode )?reserved word",
        r"\b(?:interface|enum|private|public|protected|implements)\s+\w",
    ),
    (
        r"Unexpected token '\w+'",
        r"\b(?:declare|abstract)\s+(?:const|let|class|function)\b|\bexport\s+(?:interface|type|enum|declare|namespace)\b",
    ),
    (
        r"missing \) after argument list",
        rf"\(\s*\w+\s*\??:\s*{_TYPE}[^()]*\)\s*(?::[^=;]{{1,80}})?=>|\bas\s+(?:const\b|{_TYPE})|\w!\s*[.)\],]",
    ),
]
_NEEDS_CODE: Final = " is not supported; "  # of the messages in runtime_js/typescript/20_erasable.js
_MOST_READ: Final = 64 * 1024  # characters of a source that are looked at
_MOST_NAMED: Final = 3
_MOST_COMPARED: Final = 64  # names; to compare a thousand long ones took 0.7 s of the event loop
_MOST_COMPARED_NAME: Final = 64  # characters


def hint_for(
    kind: str, name: str | None, message: str, source: str, tools: Sequence[str], *, typescript: bool = False
) -> str | None:
    """One line that helps a model to mend its script, for the mistakes that models make; else None.

    `tools` are the names under which the script could call tools. `typescript`: it is accepted.
    """
    text = source[:_MOST_READ].lstrip("\ufeff \t\r\n")
    if text.startswith(("// @exec", "//@exec")):
        text = text.partition("\n")[2].lstrip()
    if text.startswith("```"):
        return _FENCE
    if kind == "syntax_error":
        return _of_syntax(text, message, typescript)
    if kind != "script_error":
        return None
    if name == "ReferenceError" and (found := _NOT_DEFINED.fullmatch(message)):
        return _MISSING.get(found[1])
    if name == "TypeError" and (found := _NO_FUNCTION.fullmatch(message)):
        return _of_unknown_tool(found[1], tools)
    if name == "Error" and message == "Not supported" and re.search(r"\bimport\s*\(", text):
        return _IMPORT
    return None


def _of_syntax(text: str, message: str, typescript: bool) -> str | None:
    if text[:1] in ('"', "{") and _is_json(text):
        return _QUOTED
    if typescript and _NEEDS_CODE in message:
        return _ERASABLE
    if "import" in message:
        return _IMPORT
    if not _is_typescript(message, text):
        return None
    return _NOT_STRIPPED if typescript else _TYPESCRIPT


def _is_typescript(message: str, text: str) -> bool:
    for said, sign in _TYPESCRIPT_SIGNS:
        found = re.fullmatch(said, message)
        if found is not None:
            word = re.escape(found[1]) if found.re.groups else ""
            return re.search(sign.replace("{}", word), _QUOTED_TEXT.sub("''", text)) is not None
    return False


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
    near = _nearest(wanted[:100], tools)
    if near:
        return f"There is no tool {wanted[:100]}. The nearest are: {', '.join(near)}."
    return f"There is no tool {wanted[:100]}. ALL_TOOLS lists the {len(tools)} there are."


def _nearest(wanted: str, tools: Sequence[str]) -> list[str]:
    """The names that are most like the wanted one, looked for among those with most pairs of letters in common."""
    cut = {name[:_MOST_COMPARED_NAME]: name for name in reversed(tools)}
    names = list(cut)
    if len(names) > _MOST_COMPARED:
        pairs = _pairs(wanted)
        names = heapq.nlargest(_MOST_COMPARED, names, key=lambda name: len(pairs & _pairs(name)))
    found = difflib.get_close_matches(wanted[:_MOST_COMPARED_NAME], names, n=_MOST_NAMED, cutoff=0.4)
    return [cut[name] for name in found]


def _pairs(name: str) -> set[str]:
    return set(map("".join, itertools.pairwise(name)))
