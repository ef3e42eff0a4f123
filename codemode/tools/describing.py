"""What the descriptions of `exec` and `wait` say to a model, of the tools of a session within a budget."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from codemode.typescript.declaring import Declaration, Signature, block_of, declaration
from codemode.typescript.naming import TypeNames
from codemode.typescript.text import comment
from codemode.typescript.work import MOST_WORK, Work

_EXEC: Final = """\
Run a JavaScript program that calls tools. Good for several calls at once or in turn, and for results that have to be \
filtered, joined or counted first: only what the program puts out comes back to you.

{input}
- It is the body of an async function in strict mode: `await` works, `import` does not. No Node, network, files, \
`fetch` or `console`; `tools` is the only way out.
- `await tools.NAME(args)` takes one object, resolves to the tool's result as JSON and rejects with an Error if it \
fails. Make independent calls together with `Promise.all`; `for await (const {{index, status, value, reason}} of \
as_settled(promises))` takes them as they settle.
- `text(value)` puts out a text, or JSON of what is none; `return value` at the end does the same. `image(url)`, \
`audio(url)`, and `content(result.content)` for MCP results.
- `store(key, value)` and `load(key)` keep JSON values for later programs. `notify(value)` says something at once, \
`yield_control()` answers with the output so far, `exit()` ends the program.
- If it takes longer, the answer is `Script running with cell ID N`, and `wait` gets the rest.
{options}"""
EXEC_AS_TEXT: Final = _EXEC.format(
    input="- The input is the source itself: no JSON, no quotes, no Markdown fence.",
    options='- A first line `// @exec: {"yield_time_ms": 10000, "max_output_tokens": 10000}` says how long to wait and '
    "where to cut the output; these are the defaults.",
)
EXEC_AS_ARGUMENTS: Final = _EXEC.format(input="- `source` is plain JavaScript: no Markdown fence.", options="").rstrip()
WAIT: Final = (
    "Get what a program that `exec` left running has put out since, or its end. The cell ID is that of the answer; "
    "`terminate` ends the program and gets what it has put out."
)

_SENTENCE: Final = re.compile(r"(?<=[.!?])\s")
# Characters of a tool's purpose in the index, and what part of the room that may take; the rest is for declarations.
_PURPOSES: Final = ((100, 0.6), (60, 0.7), (40, 0.9), (20, 1.0), (0, 1.0))
_MOST_WORK: Final = 10 * MOST_WORK  # for all declarations
_LEAST: Final = 200  # bytes that there always are, for a budget that is nearly none


def described_tools(tools: Sequence[Signature], most_bytes: int, *, has_search: bool) -> str:
    """The tools that a program may call: all declared, or as many as there is room for, and an index of the others."""
    if not tools:
        return "There are no tools."
    declared = _declared(tools)
    whole = [each for each in declared if each is not None]
    if len(whole) == len(tools) and _bytes(_fenced(whole)) <= most_bytes:
        return _fenced(whole)
    return _partly(tools, declared, max(most_bytes, _LEAST), has_search=has_search)


def _declared(tools: Sequence[Signature]) -> list[Declaration | None]:
    """Each tool's declaration, for as long as the work for all is not done; then None."""
    names = TypeNames()
    left = _MOST_WORK
    found: list[Declaration | None] = []
    for tool in tools:
        if left <= 0:
            found.append(None)
            continue
        work = Work(min(MOST_WORK, left))
        before = work.left
        made = declaration(tool, names, work)
        left -= before - work.left
        names.take(made.types)
        found.append(made)
    return found


def _partly(
    tools: Sequence[Signature], declared: Sequence[Declaration | None], most_bytes: int, *, has_search: bool
) -> str:
    """The shortest declarations, as there is room for them, and a line for each of the other tools."""
    room = most_bytes - _bytes(
        "\n".join([_about(len(tools), len(tools), has_search), _more(len(tools)), _fenced([]), ""])
    )
    lines = _index(tools, room)
    left = room - sum(_bytes(line) + 1 for line in lines)
    chosen: dict[int, Declaration] = {}
    shown: set[str] = set()
    by_length = sorted((len(each), place) for place, each in enumerate(declared) if each is not None)
    for _, place in by_length:
        made = declared[place]
        assert made is not None
        more = _bytes(block_of([made])) - sum(_bytes(each) for name, each in made.types.items() if name in shown)
        more -= _bytes(lines[place]) if place < len(lines) else 0
        if more > left:
            break
        left -= more
        chosen[place] = made
        shown |= made.types.keys()
    named = [line for place, line in enumerate(lines) if place not in chosen]
    unnamed = sum(place not in chosen for place in range(len(lines), len(tools)))
    parts = [_about(len(tools), len(chosen), has_search), *named, *([_more(unnamed)] if unnamed else [])]
    return "\n".join([*parts, _fenced([chosen[place] for place in sorted(chosen)])] if chosen else parts)


def _index(tools: Sequence[Signature], most_bytes: int) -> list[str]:
    """A line for each tool: its name, and as much of its purpose as there is room for; or names, as many as fit."""
    lines: list[str] = []
    purposes = [_SENTENCE.split(comment(each.description, 400), maxsplit=1)[0] for each in tools]
    for most, share in _PURPOSES:
        shown = [comment(purpose, most) if most else "" for purpose in purposes]
        lines = [f"- {tool.name}{': ' if said else ''}{said}" for tool, said in zip(tools, shown, strict=True)]
        if sum(_bytes(line) + 1 for line in lines) <= share * most_bytes:
            return lines
    lengths = accumulate(_bytes(line) + 1 for line in lines)
    return lines[: sum(length <= most_bytes for length in lengths)]


def _about(number: int, declared: int, has_search: bool) -> str:
    how = (
        "`search_tools(query, limit)`"
        if has_search
        else "`ALL_TOOLS.filter(({name, description}) => /WORD/i.test(name + description))`"
    )
    return (
        f"There are {number} tools; {declared} of them are declared below, and of the others here is a line each. Read "
        f"about them in a program first: `ALL_TOOLS` has the `{{name, description}}` of all, {how} finds some."
    )


def _more(number: int) -> str:
    return f"- and {number} more"


def _fenced(declarations: list[Declaration]) -> str:
    return f"```ts\n{block_of(declarations)}\n```"


def _bytes(text: str) -> int:
    return len(text.encode())
