"""The JavaScript that surrounds a script inside the isolate, in load order.

Plain files, no build step: each is one expression, a function that takes the object the files
share. `program(name)` joins them into the text that is evaluated once in each isolate.
"""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parent


def sources() -> list[tuple[str, str]]:
    """(file name, text) of every file, in load order: the numbers in the names."""
    return [(path.name, path.read_text(encoding="utf-8")) for path in sorted(_FOLDER.glob("[0-9][0-9]_*.js"))]


def program(name: str) -> str:
    """The whole runtime as one program that leaves its entry points in the constant `name`.

    The constant is lexical, so no script can find it by listing the global object; the host picks
    a name that cannot be guessed.
    """
    calls = "\n".join(f"({text.rstrip().removesuffix(';')})(core);" for _, text in sources())
    return (
        f"const {name} = (() => {{\nconst core = {{ __proto__: null }};\n{calls}\nreturn core.host;\n}})();\n"
        "//# sourceURL=codemode:runtime\n"
    )


_PARSER_EXPORTS = (
    "\nexport { getColumn, getLine, parse, parseExpression, tokTypes };"  # the one line that makes it a module
)


def stripper() -> str:
    """One expression: the function that takes the types out of a source (typescript/40_strip.js).

    It is for cells that need it alone, so it is no part of the program: half a megabyte to read.
    """
    parser = (_FOLDER / "vendor/babel-parser/index.js").read_text(encoding="utf-8")
    if parser.count(_PARSER_EXPORTS) != 1:
        raise ValueError("vendor/babel-parser/index.js does not export what it did")
    paths = sorted((_FOLDER / "typescript").glob("[0-9][0-9]_*.js"))
    calls = "\n".join(f"({path.read_text(encoding='utf-8').rstrip().removesuffix(';')})(types);" for path in paths)
    return (
        "(() => {\nconst types = { __proto__: null };\n"
        f'types.parse = (() => {{\n"use strict";\n{parser.replace(_PARSER_EXPORTS, "")}\nreturn parse;\n}})();\n'
        f"{calls}\nreturn types.strip;\n}})()"
    )
