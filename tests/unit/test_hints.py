"""Hints: for the mistakes that models make, with V8's own words, and for nothing else."""

from __future__ import annotations

import time

import pytest

from codemode.cells.hints import hint_for
from tests.unit.syntax_helpers import located

TOOLS = ["read_file", "list_dir", "search_files", "get_weather"]

TYPESCRIPT = [
    "const x: number = 1;",
    "function f(a: string) {}",
    "const f = (a: string, b?: number): void => {};",
    "async function f(): Promise<string> {}",
    "interface A { b: string }",
    "export interface A {}",
    "type A = { b: string }",
    "enum A { B }",
    "declare const x: any;",
    "namespace A {}",
    "abstract class A {}",
    "class A { private x = 1; }",
    "class A { constructor(private x: string) {} }",
    "class A { x?: string; }",
    "function f<T>(x: T): T { return x }",
    "const m = new Map<string, number>();",
    "const xs: string[] = [];",
    "let x: number | null = null;",
    "try {} catch (e: unknown) {}",
    "const x = y as any;",
    "const x = y as const;",
    "const x = [] as string[];",
    "let y = x as unknown as string;",
    "const x = y satisfies Z;",
    "const x = y!;",
    "const x = y!.z;",
    "let f: (a: number) => void;",
    "const {a}: {a: string} = b;",
    "// @exec: {}\nconst a = 1;\nconst x: number = a;",
]

# Plain JavaScript with a slip, and something in it that a hasty eye takes for a type.
JAVASCRIPT = [
    "const x = ;",
    "await tools.f({filter: {a: 1}}); const y = ;",
    "const {a: {b}} = c; const y = ;",
    "const f = ok ? a : Number; const y = ;",
    "switch (x) { case A: { break } } const y = ;",
    "const o = {handler: (x) => x}; const y = ;",
    "const o = {handler: (x) => x, const y }",
    "const x = {type: stringify(1)}} ",
    "text({kind: string, );",
    "f(a, b: Array);",
    "const q = {a: Map, b: Set}; text(q",
    'const note = "save as Markdown"; const y = ;',
    'const note = "x: number"; const y = ;',
    "// an interface for any: string\nconst y = ;",
    "/* as Const */ const y = ;",
    "`\ntype A = 1\n`; const y = ;",
    "await Promise.all(xs.map(async (x) => { text({a: {}}) });",
    "for (const x of xs) { text({x: {}})",
    "const a = {b: [1, 2};",
    "const a = {b: {}} const c = 1",
]


@pytest.fixture(scope="module")
def messages() -> dict[str, str]:
    """V8's message about each of them."""
    sources = TYPESCRIPT + JAVASCRIPT
    places, _ = located(sources)
    assert None not in places
    return {source: place[2] for source, place in zip(sources, places, strict=True) if place is not None}


@pytest.mark.parametrize("source", TYPESCRIPT)
def test_typescript_gets_a_hint(source: str, messages: dict[str, str]) -> None:
    """Type annotations and what else JavaScript does not have."""
    assert hint_for("syntax_error", "SyntaxError", messages[source], source, TOOLS) == (
        "This looks like TypeScript. Send plain JavaScript, without type annotations."
    )


@pytest.mark.parametrize("source", JAVASCRIPT)
def test_a_slip_in_javascript_gets_no_hint(source: str, messages: dict[str, str]) -> None:
    """Objects in objects, arrows, ternaries, labels, strings and comments are no types: a wrong hint misleads."""
    assert hint_for("syntax_error", "SyntaxError", messages[source], source, TOOLS) is None


@pytest.mark.parametrize(
    ("source", "message", "words"),
    [
        ("```js\ntext(1)\n```", "Unexpected identifier 'text'", "Markdown fence"),
        ("```\ntext(1)\n```", "Unexpected identifier 'text'", "Markdown fence"),
        ("\ufeff \n```typescript\ntext(1)\n```\n", "Unexpected identifier 'text'", "Markdown fence"),
        ("// @exec: {}\n```js\ntext(1)\n```", "Unexpected identifier 'text'", "Markdown fence"),
        ('{"source": "text(1)"}', "Unexpected token ':'", "JSON, not JavaScript"),
        ('{"code": "text(1)", "yield_time_ms": 5}', "Unexpected token ':'", "JSON, not JavaScript"),
        ('"text(1)"', "Unexpected string", "JSON, not JavaScript"),
        ("import fs from 'fs'", "Cannot use import statement outside a module", "import is not available"),
    ],
    ids=lambda value: value[:24],
)
def test_a_source_that_is_wrapped_gets_a_hint(source: str, message: str, words: str) -> None:
    """A fence, JSON or a module around the script."""
    assert words in (hint_for("syntax_error", "SyntaxError", message, source, TOOLS) or "no hint")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("console", "text(value)"),
        ("require", "`tools`"),
        ("module", "`tools`"),
        ("fetch", "network"),
        ("XMLHttpRequest", "network"),
        ("process", "Node"),
        ("Buffer", "Uint8Array"),
        ("setInterval", "setTimeout"),
    ],
)
def test_a_global_of_elsewhere_gets_a_hint(name: str, words: str) -> None:
    """It says what there is instead."""
    said = hint_for("script_error", "ReferenceError", f"{name} is not defined", f"{name}.log(1)", TOOLS)
    assert words in (said or "no hint")


@pytest.mark.parametrize(
    ("wanted", "tools", "words"),
    [
        ("read_files", TOOLS, "The nearest are: read_file"),
        ("readFile", TOOLS, "The nearest are: read_file"),
        ("zzz", TOOLS, "ALL_TOOLS lists the 4 there are"),
        ("read_file", [], "this session has no tools"),
        ("x" * 5000, TOOLS, "There is no tool " + "x" * 100 + "."),
    ],
    ids=lambda value: str(value)[:24],
)
def test_an_unknown_tool_gets_a_hint(wanted: str, tools: list[str], words: str) -> None:
    """It names the nearest ones, or says how to list them."""
    said = hint_for("script_error", "TypeError", f"tools.{wanted} is not a function", "", tools)
    assert words in (said or "no hint")


@pytest.mark.parametrize(
    ("kind", "name", "message", "source"),
    [
        ("script_error", "Error", "boom", "throw new Error('boom')"),
        ("script_error", "ReferenceError", "foo is not defined", "foo"),
        ("script_error", "ReferenceError", "the console is not defined yet", "x"),
        ("script_error", "Error", "console is not defined", "throw new Error('console is not defined')"),
        ("script_error", "TypeError", "x.y is not a function", "x.y()"),
        ("script_error", "TypeError", "tools.read_file is not a function", "tools.read_file()"),
        ("script_error", "TypeError", "Cannot read properties of undefined (reading 'a')", "const a: number = x.a"),
        ("script_error", None, "Not supported", "throw 'Not supported'"),
        ("script_error", "Error", "Not supported", "throw new Error('Not supported')"),
        ("script_error", "Error", "boom", "const as = 5, type = 6; throw new Error('boom')"),
        ("script_error", "Error", "boom", "const fence = '```'; throw new Error('boom')"),
        ("deadlock", None, "the script waits", "await new Promise(() => {})"),
        ("out_of_memory", None, "the cell used more", "const a: number = 1"),
        ("cpu_limit", None, "the script used more", "console"),
        ("worker_crashed", None, "tools.x is not a function", "require"),
    ],
)
def test_other_failures_get_no_hint(kind: str, name: str | None, message: str, source: str) -> None:
    """What is valid JavaScript and fails for a reason of its own is left alone."""
    assert hint_for(kind, name, message, source, TOOLS) is None


@pytest.mark.timeout(3)
@pytest.mark.parametrize(
    ("kind", "name", "message", "source"),
    [
        ("syntax_error", "SyntaxError", "Unexpected token ':'", "x" + "\n" * 65_000 + "const x = ;"),
        ("syntax_error", "SyntaxError", "Unexpected token ':'", "x" + "\n " * 32_000 + "const x = ;"),
        ("syntax_error", "SyntaxError", "Unexpected token ':'", "a" + " " * 65_000 + ";"),
        ("syntax_error", "SyntaxError", "Unexpected token ':'", "a<" * 32_000),
        ("syntax_error", "SyntaxError", "Unexpected token ':'", "as " * 22_000),
        ("syntax_error", "SyntaxError", "Unexpected token ':'", "type A<" * 9_000),
        ("syntax_error", "SyntaxError", "Unexpected token ':'", '{"a":' * 13_000),
        ("script_error", "TypeError", "tools." * 10_000, "x"),
        ("script_error", "TypeError", "tools." * 1_000_000, "x"),
        ("script_error", "TypeError", f"tools.{'y' * 10_000_000} is not a function", "x"),
        ("script_error", "Error", "Not supported", "import " * 10_000),
    ],
    ids=[
        "line ends",
        "blank lines",
        "blanks",
        "angles",
        "as",
        "type",
        "braces",
        "tools",
        "more tools",
        "long",
        "import",
    ],
)
def test_looking_for_a_hint_never_takes_long(kind: str, name: str, message: str, source: str) -> None:
    """It happens in the service's event loop: no text that a script or its process sends may stop everybody."""
    began = time.process_time()
    hint_for(kind, name, message, source, TOOLS * 100)
    assert time.process_time() - began < 0.25


@pytest.mark.parametrize("name", ["a" * 120, "abcdefghijklmnopqrstuvwxyz" * 4])
def test_a_thousand_long_names_are_compared_in_no_time(name: str) -> None:
    """Each of them with the wanted one took the event loop 0.7 s; the nearest is still found."""
    tools = [f"{each:04}{name}" for each in range(1000)]
    began = time.perf_counter()
    said = hint_for("script_error", "TypeError", f"tools.x123{name[::-1]} is not a function", "x", tools) or ""
    assert time.perf_counter() - began < 0.2
    assert said.startswith("There is no tool x123")
    near = hint_for("script_error", "TypeError", "tools.read_fil is not a function", "x", [*tools, "read_file"])
    assert near == "There is no tool read_fil. The nearest are: read_file."
