"""Sessions that accept TypeScript, and sessions that take wrappings off: what their scripts do, and what they cost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from codemode import CodeMode, Observation, Session

TYPED = "const f = (x: number): string => `${x}`;\ntext(f(1))"
FENCED = "```ts\nconst x: number = 1;\nthrow new Error(`${x}`)\n```"
MIB = 1 << 20


@pytest.fixture
async def cm() -> AsyncIterator[CodeMode]:
    async with CodeMode(spares=1) as service:
        yield service


@pytest.fixture
def typed(cm: CodeMode) -> Session:
    return cm.create_session(typescript=True)


def texts(seen: Observation) -> list[str]:
    return [item["text"] for item in seen.output]


async def failure(session: Session, source: str) -> tuple[Any, ...]:
    """Kind, message, place and hint of the error that it ends with."""
    error = (await session.exec(source)).error
    assert error is not None
    return error.kind, error.message, error.line, error.column, error.hint


# TypeScript


async def test_typescript_is_accepted_where_a_session_says_so(cm: CodeMode, typed: Session) -> None:
    """Without a word about it; elsewhere it fails, with a hint."""
    seen = await typed.exec(TYPED)
    assert (seen.status, texts(seen), seen.warnings) == ("completed", ["1"], [])
    strict = await cm.exec(TYPED)
    assert strict.error is not None
    assert (strict.status, strict.error.kind, strict.error.line) == ("failed", "syntax_error", 1)
    assert "Send plain JavaScript" in (strict.error.hint or "")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("let a: number = 1;\n  let b = ;", ("Unexpected token ';'", 2, 11, None)),
        ("let a: number = 1;\n  let a = 2;", ("Identifier 'a' has already been declared", 2, 7, None)),
        ("let a = 1;\n  let b = ;", ("Unexpected token ';'", 2, 11, None)),
        ("let a: number = 1;\nif (a) {", ("Unexpected end of input", 2, 9, None)),
        (
            "let a: number = 1;\nenum B { C }",
            ("enum is not supported; use an object of constants", 2, 1, "plain JavaScript"),
        ),
        (
            "let a: number = 1;\nimport b from 'b'",
            ("Cannot use import statement outside a module", 2, 1, "import is not"),
        ),
        ('{"source": "let a: number = 1"}', ("Unexpected token ':'", 1, 10, "is JSON")),
        ("```ts\nlet a: number = 1;", ("Unexpected end of input", 2, 19, "Markdown fence")),
    ],
)
async def test_what_fails_all_the_same_is_told_where_it_fails(
    typed: Session, source: str, expected: tuple[str, int, int, str | None]
) -> None:
    """The mistake, not the first type; with a hint that fits."""
    message, line, column, words = expected
    *found, hint = await failure(typed, source)
    assert found == ["syntax_error", message, line, column]
    assert hint is None if words is None else words in (hint or "")


async def test_a_hint_does_not_forbid_what_is_accepted(typed: Session) -> None:
    """Of a text too deep for the parser nothing more is known than that its types are still there."""
    source = f"const a: {'A<' * 20_000}B{'>' * 20_000} = 1"
    assert await failure(typed, source) == (
        "syntax_error",
        "Missing initializer in const declaration",
        1,
        7,
        "This looks like TypeScript, which is accepted here, but its types could not be taken out.",
    )


async def test_other_errors_have_their_hints(typed: Session) -> None:
    """Of what there is not."""
    kind, _, line, column, hint = await failure(typed, "let a: number = 1;\nconsole.log(a)")
    assert (kind, line, column) == ("script_error", 2, 1)
    assert "There is no console" in hint


async def test_plain_scripts_pay_nothing(typed: Session) -> None:
    """The library is not even read: it takes 4 MB of memory and some 20 ms."""
    plain, stripped = await typed.exec("text(1)"), await typed.exec("let a: number = 1; text(a)")
    assert (texts(plain), texts(stripped)) == (["1"], ["1"])
    assert plain.usage.cpu_ms < stripped.usage.cpu_ms


# Hostile sources


@pytest.mark.parametrize(
    "source",
    [
        "let a: T;" + "(" * 100_000,
        "let a: " + "(" * 100_000,
        "let a: " + "A<" * 100_000,
        "let a: " + "{a: " * 50_000,
        "let a: T; " + "f<a>(" * 50_000,
        "let a: T; x = " + "a ? (b): c => (" * 20_000,
        "let a: T; x = " + "1 + " * 100_000 + "1",
        "let a: T; " + "async <T>(x = " * 20_000,
        "type A = " + "B extends (infer C extends " * 20_000,
        "let a: T; `" + "${`" * 50_000,
        "let a: T; /" + "(" * 100_000,
        "let a: T; " + "\\u{" * 50_000,
        "let a: '" + "\U0001f600" * 200_000 + "' = 1",
    ],
    ids=lambda source: source[:24],
)
async def test_a_hostile_source_ends_its_own_cell_alone(cm: CodeMode, typed: Session, source: str) -> None:
    """Depth, length and what makes parsers try twice: it ends, and others do not wait for it."""
    seen = asyncio.ensure_future(typed.exec(source))
    assert texts(await cm.exec("text(1)")) == ["1"]
    status, error = (await seen).status, (await seen).error
    assert status in ("completed", "failed")
    assert error is None or error.kind in ("syntax_error", "script_error", "out_of_memory")
    assert texts(await typed.exec(TYPED)) == ["1"]


async def test_a_long_program_runs(typed: Session) -> None:
    """One of 1 MiB."""
    line = "const v{}: Map<string, number> = new Map<string, number>(); function f{}(a: any, b?: number[]): void {{}}\n"
    source = "".join(line.format(number, number) for number in range(9500))
    assert MIB * 0.9 < len(source) <= MIB
    assert texts(await typed.exec(source + "text(v9.size)")) == ["0"]


async def test_the_limits_of_the_cell_hold_while_types_are_taken_out(cm: CodeMode) -> None:
    """CPU time and memory; and it can be terminated."""
    long = "let a: T; " + "a;" * 500_000
    # An abort whose report is late, on a machine that is busy, is a crash.
    out_of_memory = ("out_of_memory", "worker_crashed")
    for limits, kinds in (({"cpu_ms": 100}, ("cpu_limit",)), ({"memory_mb": 64}, out_of_memory)):
        session = cm.create_session(typescript=True, limits=limits)
        seen = await session.exec(long)
        assert seen.error is not None
        assert seen.error.kind in kinds
    session = cm.create_session(typescript=True)
    running = await session.exec(long, yield_time_ms=0)
    assert running.status == "running"
    assert (await session.terminate(running.cell_id)).status == "terminated"


# Lenient sources


async def test_a_fence_is_taken_off_and_told_of(cm: CodeMode) -> None:
    """Lines are those of the text sent; the model is told where it is shown warnings."""
    session = cm.create_session(lenient_source=True, typescript=True, model_warnings=True)
    seen = await session.exec(FENCED)
    said = "the source stood in a Markdown fence, which was taken off; its lines still count"
    assert seen.error is not None
    assert (seen.error.kind, seen.error.message, seen.error.line, seen.error.column) == ("script_error", "1", 3, 7)
    assert (seen.error.hint, seen.warnings) == (None, [said])
    assert said in seen.model_output[-1]["text"]


async def test_a_quoted_script_is_taken_out_of_its_quotes(cm: CodeMode) -> None:
    """Positions are those within, and the warning says so."""
    session = cm.create_session(lenient_source=True)
    source = json.dumps("text(1);\n  throw new Error('e')")
    seen = await session.exec(source)
    assert seen.error is not None
    assert (texts(seen), seen.error.line, seen.error.column) == (["1"], 2, 9)
    assert seen.warnings == [
        "the source was one JSON string, which was taken out of its quotes; lines and columns are those within"
    ]
    twice = await session.exec(json.dumps(source))
    assert twice.error is not None
    assert twice.error.kind == "syntax_error"


async def test_the_directive_within_a_fence_counts(cm: CodeMode) -> None:
    """It yields at once."""
    session = cm.create_session(lenient_source=True)
    seen = await session.exec(
        '```js\n// @exec: {"yield_time_ms": 0}\nawait new Promise((r) => setTimeout(r, 1e6))\n```'
    )
    assert seen.status == "running"


async def test_a_strict_session_refuses_both(cm: CodeMode) -> None:
    """With the hint."""
    for source in ("```js\ntext(1)\n```", json.dumps("text(1)")):
        seen = await cm.exec(source)
        assert seen.error is not None
        assert (seen.status, seen.warnings) == ("failed", [])
        assert "raw JavaScript" in (seen.error.hint or "")


async def test_an_idempotency_key_belongs_to_the_text_that_was_sent(cm: CodeMode) -> None:
    """A repeat gets the same cell."""
    session = cm.create_session(lenient_source=True)
    first = await session.exec("```\ntext(1)\n```", idempotency_key="k")
    again = await session.exec("```\ntext(1)\n```", idempotency_key="k")
    assert (first.cell_id, texts(again)) == (again.cell_id, ["1"])


# What lasts


async def test_both_last_over_a_restart(tmp_path: Path) -> None:
    """And a session of an earlier version, which did not know of them, is strict."""
    async with CodeMode(spares=1, data_dir=tmp_path) as cm:
        made = cm.create_session(lenient_source=True, typescript=True)
        plain = cm.create_session()
    async with CodeMode(spares=1, data_dir=tmp_path) as cm:
        found = cm.session(made.session_id)
        assert (found.lenient_source, found.typescript) == (True, True)
        assert texts(await found.exec(f"```ts\n{TYPED}\n```")) == ["1"]
        found = cm.session(plain.session_id)
        assert (found.lenient_source, found.typescript) == (False, False)
