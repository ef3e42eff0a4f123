"""Whatever comes in as bytes or text is read or refused: no other exception, no memory without bound, no long time."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codemode.cells.hints import hint_for
from codemode.cells.outcome import quoted_script, read_done
from codemode.cells.plain_json import read_object
from codemode.cells.records import read_item, read_store
from codemode.cells.source import read_directive
from codemode.cells.wrapping import unwrapped
from codemode.errors import InvalidSource
from codemode.isolation.wire import Decoder, FromCell, ProtocolError, State, frame
from codemode.limits import Limits
from codemode.tools.encoding import NotJson, decode
from codemode.tools.registry import ToolRegistry
from tests.fuzz.targets import TARGETS

SEEDS = Path(__file__).resolve().parents[1] / "fuzz" / "seeds"
MIB = 1024 * 1024
LONG_S = 1.0  # on a busy machine; all of it takes a tenth of that

plain = st.one_of(st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.text(max_size=20))
flat = st.dictionaries(st.text(max_size=8), plain, max_size=8)
json_values = st.recursive(
    st.one_of(plain, st.floats()),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=5), inner, max_size=4)),
    max_leaves=12,
)
json_texts = st.builds(lambda value, ascii_only: json.dumps(value, ensure_ascii=ascii_only), json_values, st.booleans())
record_payloads = st.one_of(
    st.binary(max_size=200),
    json_texts.map(lambda text: text.encode("utf-8", "replace")),
    st.builds(lambda key, value: f"{key}\n{value}".encode("utf-8", "replace"), json_texts, json_texts),
    st.from_regex(rb"\d{1,12} \d{1,12} .{0,20}", fullmatch=True),
    st.builds(
        lambda told: json.dumps(told).encode(),
        st.fixed_dictionaries(
            {},
            optional={
                "status": st.sampled_from(["completed", "failed", "stopped", "odd", 1, None]),
                "kind": st.sampled_from(["script_error", "syntax_error", "out_of_memory", "odd", 5, None, []]),
                "timers": json_values,
                "message": json_values,
                "error": st.one_of(
                    json_values,
                    st.fixed_dictionaries(
                        {},
                        optional={
                            name: st.one_of(st.text(max_size=5), st.integers(), json_values)
                            for name in ("name", "message", "text", "line", "column")
                        },
                    ),
                ),
            },
        ),
    ),
)
streams = st.one_of(
    st.binary(max_size=2000),
    st.builds(
        lambda size, frames, tail: bytes([size]) + b"".join(frame(*each) for each in frames) + tail,
        st.integers(0, 255),
        st.lists(st.tuples(st.sampled_from([*FromCell, 0, 9, 12, 200]), record_payloads), max_size=10),
        st.binary(max_size=8),
    ),
)
messages = st.builds(
    lambda size, parts: bytes([size]) + b"".join(parts),
    st.integers(0, 255),
    st.lists(
        st.one_of(st.binary(max_size=60), st.sampled_from(range(6)).map(lambda n: bytes([n, n, 0, 0, 0]) + b"\0" * 21)),
        max_size=20,
    ),
)
texts = st.one_of(
    st.text(max_size=200),
    st.builds(lambda value: f"// @exec: {value}\ntext(1)", json_texts),
    st.builds(lambda value: f" {value} ", json_texts),
).map(lambda text: text.encode("utf-8", "replace"))
KINDS = {"decoder": streams, "cell": streams, "control": messages, "source": texts, "hints": texts, "ring": streams}


@pytest.mark.parametrize("name", TARGETS)
def test_any_bytes_are_read_or_refused(name: str) -> None:
    """Each promise of tests/fuzz/targets.py, on made-up bytes and on those that fuzzing has found before."""
    for seed in sorted((SEEDS / name).glob("*")):
        TARGETS[name](seed.read_bytes())

    @settings(max_examples=40 if name == "cell" else 80)
    @given(KINDS.get(name, record_payloads))
    def run(data: bytes) -> None:
        TARGETS[name](data)

    run()


@given(flat, st.dictionaries(st.text(max_size=5), flat, max_size=2))
def test_plain_json_is_read_as_json_reads_it(values: dict[str, Any], inner: dict[str, Any]) -> None:
    """Objects of plain values and one more level of them."""
    value = {**values, **inner}
    assert read_object(json.dumps(value).encode()) == value


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"a"}', '{"a":1,}', '{"a":[]}', '{"a":{"b":{}}}', '{"a":1} 2', '"a"', '{"a":1e}', "{,}"]
)
def test_json_that_is_not_plain_is_refused(text: str) -> None:
    """Lists, deeper levels, more behind it, and what is no JSON at all."""
    with pytest.raises(ProtocolError):
        read_object(text.encode())


def seconds(action: Any) -> float:
    """How long something takes, whether it is refused or not."""
    began = time.perf_counter()
    try:
        action()
    except (ProtocolError, NotJson, InvalidSource):
        pass
    return time.perf_counter() - began


BOMBS = {
    "lists": b"[" + b"[]," * (3 * MIB) + b"1]",
    "objects": b'{"a":' * (2 * MIB),
    "brackets": b"[" * (10 * MIB),
    "escapes": b'{"a":"' + b"\\u0000" * MIB + b'"}',
    "quotes": b'"' * (10 * MIB),
    "members": b"{" + b'"a":1,' * MIB + b'"b":2}',
    "blanks": b" " * (10 * MIB),
    "digits": b'{"timers":' + b"9" * (10 * MIB) + b"}",
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_long_payload_is_read_in_a_moment(bomb: str) -> None:
    """Ten megabytes of what costs a reader most are refused before they have become anything."""
    payload, limits, registry = BOMBS[bomb], Limits(), ToolRegistry([])
    assert seconds(lambda: read_item(payload)) < LONG_S
    assert seconds(lambda: read_store(payload)) < LONG_S
    assert seconds(lambda: read_done(payload, "", registry, limits)) < LONG_S
    assert seconds(lambda: decode(payload[:MIB])) < LONG_S


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_the_decoder_takes_linear_time(size: int) -> None:
    """Also a long frame that comes in many pieces, and many frames in one piece."""
    long = frame(FromCell.TEXT, b"x" * MIB)[: size * 20_000]
    decoder = Decoder(2 * MIB)
    pieces = [long[start : start + size] for start in range(0, len(long), size)]
    assert seconds(lambda: [list(decoder.feed(piece)) for piece in pieces]) < LONG_S
    many = frame(FromCell.YIELD) * 50_000
    assert seconds(lambda: list(Decoder(MIB).feed(many))) < LONG_S


REPEATED = [
    "'",
    "\\'",
    "'\\",
    '"',
    "`",
    "`\\",
    "/*",
    "*/",
    "//",
    "(",
    "(a",
    "(a: ",
    "(a: {",
    "A",
    "a ",
    "a:",
    "a: A",
    "<",
    "< ",
]
REPEATED += [
    "a?",
    "a!",
    "! ",
    " ",
    "\n",
    "as ",
    "as A",
    "type ",
    "declare ",
    "]",
    "} :",
    "=>",
    "{",
    "[",
    "\\",
    "import (",
]
SAID = [
    "Missing initializer in const declaration",
    "Unexpected token ':'",
    "Unexpected token '?'",
    "Unexpected identifier 'as'",
    "Unexpected identifier 'foo'",
    "Unexpected strict mode reserved word",
    "Unexpected token 'const'",
    "missing ) after argument list",
]


@pytest.mark.parametrize("before", ["", "f(a: ", "'", "/*"])
def test_a_hint_is_found_in_linear_time(before: str) -> None:
    """Whatever a source repeats 64 KiB long: a quote that is never closed took half a minute."""
    for repeated in REPEATED:
        source = (before + repeated * 65_536)[:65_536]
        for said in SAID:
            took = seconds(lambda: hint_for("syntax_error", "SyntaxError", said, source, ()))  # noqa: B023
            assert took < LONG_S, (repeated, said, took)


@pytest.mark.parametrize("repeated", [*REPEATED, "// @exec: ", "{", "9", '{"a":', "\ufeff", "\u2028", "\U0001f600"])
def test_a_source_is_looked_at_in_linear_time(repeated: str) -> None:
    """Its first line, whether it is quoted, and what is said about it."""
    for source in (repeated * (MIB // len(repeated)), f"// @exec: {repeated * (MIB // len(repeated) // 2)}"):
        assert seconds(lambda: read_directive(source, 8 * MIB)) < LONG_S  # noqa: B023
        assert seconds(lambda: quoted_script(source)) < LONG_S  # noqa: B023
        for wrapped in (source, f"```\n{source}", f"```js\n{source}\n```", f"```js\n{source}\n``` x", f'"{source}"'):
            assert seconds(lambda: unwrapped(wrapped)) < LONG_S  # noqa: B023


@given(st.binary(min_size=25, max_size=25))
def test_a_state_of_the_right_size_is_read(payload: bytes) -> None:
    """Any contents are numbers; whether they can be is looked at elsewhere."""
    size = len(State(False, False, 0, 0, 0).encode()) - 5
    assert State.decode(payload[:size])[2] >= 0
