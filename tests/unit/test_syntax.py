"""Where a source does not parse: line and column of the text that was sent, whatever surrounds it inside."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.unit.syntax_helpers import Place, located

SEMICOLON = "Unexpected token ';'"
END = "Unexpected end of input"

# (what it shows, the source, the place)
CASES: list[tuple[str, str, Place]] = [
    ("a statement without its value", "const x = ;", (1, 11, SEMICOLON)),
    ("blank lines and indentation count", "\n\n  const x = ;\n", (3, 13, SEMICOLON)),
    ("a tab is one column", "\tconst x = ;", (1, 12, SEMICOLON)),
    ("columns are UTF-16 units", "const s = '😀é中'; const x = ;", (1, 29, SEMICOLON)),
    ("a byte order mark is a column", "\ufeffconst x = ;", (1, 12, SEMICOLON)),
    ("CRLF is one line end", "let a\r\nlet b\r\nconst x = ;", (3, 11, SEMICOLON)),
    ("CR alone is a line end", "let a\rlet b\rconst x = ;", (3, 11, SEMICOLON)),
    ("so are LS and PS", "let a\u2028let b\u2029const x = ;", (3, 11, SEMICOLON)),
    ("also within a string", "let a = '\u2028'\nconst x = ;", (3, 11, SEMICOLON)),
    ("the directive counts", "// @exec: {}\nconst x = ;", (2, 11, SEMICOLON)),
    ("a first line for an interpreter counts", "#!/usr/bin/env node\nconst x = ;", (2, 11, SEMICOLON)),
    ("a very long line", f"let s = '{'x' * 100_000}'; const x = ;", (1, 100_023, SEMICOLON)),
    ("a very late line", "\n" * 50_000 + "const x = ;", (50_001, 11, SEMICOLON)),
    ("a lone surrogate before it", "'\ud800'; x y", (1, 8, "Unexpected identifier 'y'")),
    ("a block that is never closed", "if (true) { text('a')", (1, 22, END)),
    ("a template that is never closed", "`abc ${", (1, 8, END)),
    ("a bracket that is never closed", "\n[1, 2", (2, 6, END)),
    ("a comment that is never closed", "text(1) /*", (1, 9, "Invalid or unexpected token")),
    ("a string that is never closed", "'abc", (1, 1, "Invalid or unexpected token")),
    ("a regular expression that is never closed", "/abc", (1, 1, "Invalid regular expression: missing /")),
    ("a brace too many", "text(1) }", (1, 9, "Unexpected token '}'")),
    ("a brace too many on the last line", "text(1)\n}\n", (2, 1, "Unexpected token '}'")),
    ("nothing but a brace", "}", (1, 1, "Unexpected token '}'")),
    ("a name that is there already", "const a = 1; const a = 2;", (1, 20, "Identifier 'a' has already been declared")),
    ("with, since the body is strict", "with (a) {}", (1, 1, "Strict mode code may not include a with statement")),
    ("a static import", "import fs from 'fs'", (1, 1, "Cannot use import statement outside a module")),
    ("break outside a loop", "\n break", (2, 2, "Illegal break statement")),
    ("what parses has no place", "text(1) // fine", None),
    ("a comment on the last line is closed by its end", "text(1)\n//", None),
]

# Each tries to close what surrounds it, and to run.
BREAKOUTS = [
    "}); globalThis.ran = 1; (async () => {",
    "}]; globalThis.ran = 1; [async () => {",
    "})(); globalThis.ran = 1; (() => {",
    "}\nglobalThis.ran = 1\n{ const x = ;",
    "*/ globalThis.ran = 1 /*",
    "`;globalThis.ran = 1;`${",
    "\u2028}); globalThis.ran = 1; //",
]


@pytest.fixture(scope="module")
def places() -> dict[str, Place]:
    """All cases, in one process."""
    found, _ = located([source for _, source, _ in CASES])
    return dict(zip([name for name, _, _ in CASES], found, strict=True))


@pytest.mark.parametrize(
    ("name", "place"), [(name, place) for name, _, place in CASES], ids=[case[0] for case in CASES]
)
def test_place(name: str, place: Place, places: dict[str, Place]) -> None:
    """Line, column and message of the first thing that does not parse."""
    assert places[name] == place


@pytest.fixture(scope="module")
def odd_places() -> dict[str, Any]:
    """Sources whose place may be told in more than one way."""
    sources = ["text(1)\n});", "text(1)\n})\n", "(" * 3_000, *BREAKOUTS]
    found, ran = located(sources)
    return dict(zip(sources, found, strict=True)) | {"ran": ran}


@pytest.mark.parametrize("source", ["text(1)\n});", "text(1)\n})\n"])
def test_closing_too_much_is_not_called_the_end_of_the_input(source: str, odd_places: dict[str, Any]) -> None:
    """Who reads `end of input` adds even more brackets; here there are too many, on line 2."""
    line, _, message = odd_places[source]
    assert (line, message.partition("'")[0]) == (2, "Unexpected token ")


def test_nesting_that_is_too_deep_has_no_place_outside_the_text(odd_places: dict[str, Any]) -> None:
    """V8 gives up without a place then, and a line that is no line must not be told."""
    place = odd_places["(" * 3_000]
    assert place is None or place[0] == 1


def test_nothing_runs(odd_places: dict[str, Any]) -> None:
    """No source gets out of what surrounds it while it is being located."""
    assert odd_places["ran"] is False


def test_the_place_is_right_behind_any_lines() -> None:
    """Three hundred sources of random lines, each with one mistake at a known place."""
    chance = random.Random(0)
    lines = [
        "",
        "let n{n} = 1",
        "\t// 'note",
        "const s{n} = `a\nb${{1}}c`",
        "text('😀')",
        "if (1) {{\n}}",
        "/* }} ) \n */",
        "a: 1",
    ]
    sources: list[str] = []
    expected: list[Place] = []
    for number in range(300):
        end = chance.choice(["\n", "\r\n"])
        before = [chance.choice(lines).format(n=f"{number}_{each}") for each in range(chance.randrange(8))]
        text = "\n".join(before).replace("\n", end)
        indent = chance.choice(["", "  ", "\t", "'中😀'; "])
        after = chance.choice(["", end, f"{end}text(2)", f"{end}}}"])
        sources.append(f"{text}{end}{indent}const x{number} = ;{after}")
        column = len(f"{indent}const x{number} = ".encode("utf-16-le")) // 2 + 1
        expected.append((text.count("\n") + 2, column, SEMICOLON))
    assert located(sources) == (expected, False)
