"""The names under which a script finds its tools."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codemode.errors import CodeModeError, InvalidRequest, ToolNameCollision
from codemode.tools.registry import ToolRegistry, js_name
from codemode.tools.tool import Tool
from tests.unit.syntax_helpers import ROOT

# Asks V8 whether each of the names can be written after a dot, and says which cannot.
ASK_V8 = """
import json, sys
from codemode.isolation.isolate import Isolate, initialise
initialise()
isolate = Isolate()
names = json.load(sys.stdin)
legal = r"/^[$_\\p{ID_Start}][$\\u200c\\u200d\\p{ID_Continue}]*$/u"
code = f"JSON.stringify({json.dumps(names)}.filter((name) => !{legal}.test(name)))"
print(isolate.evaluate(code), flush=True)
isolate.close()
"""


def refused_by_v8(names: list[str]) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", ASK_V8],
        input=json.dumps(names),
        capture_output=True,
        text=True,
        timeout=15,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    refused: list[str] = json.loads(done.stdout)
    return refused


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("read_file", "read_file"),
        ("get-stock", "get_stock"),
        ("a.b", "a_b"),
        ("2fa", "_fa"),
        ("", "_"),
        ("-", "_"),
        ("a b\tc\nd", "a_b_c_d"),
        ("$x", "$x"),
        ("naïve", "naïve"),
        ("天気", "天気"),
        ("погода", "погода"),
        ("x😀y", "x_y"),
        ("😀", "_"),
        ("٣x", "_x"),
        ("x٣", "x٣"),
        ("e\u0301", "e\u0301"),
        ("\u0301e", "_e"),
        ("constructor", "constructor"),
        ("__proto__", "__proto__"),
        ("then", "then"),
        ("class", "class"),
        ("a\u0000b", "a_b"),
        ("mcp__SERVER__TOOL", "mcp__SERVER__TOOL"),
    ],
)
def test_what_no_identifier_may_hold_becomes_an_underscore(name: str, expected: str) -> None:
    """One for each character; letters of any script stay; a leading digit goes too."""
    assert js_name(name) == expected


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_name_is_of_the_same_length_and_stays_as_it_is_once_made(name: str) -> None:
    """Nothing is dropped but the empty name, and a made name is its own name."""
    made = js_name(name)
    assert (len(made), js_name(made)) == (max(1, len(name)), made)


def test_v8_takes_every_name() -> None:
    """Each character of Unicode, at the start and behind it: what we leave in a name is legal in JavaScript."""
    characters = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    names = {js_name(character) for character in characters} | {js_name(f"a{character}") for character in characters}
    assert refused_by_v8(sorted(names)) == []


@pytest.mark.parametrize(("first", "second"), [("a-b", "a_b"), ("a.b", "a-b"), ("", "_"), ("1", "2"), ("same", "same")])
def test_two_tools_of_one_name_are_refused(first: str, second: str) -> None:
    """Both declared names are told, and the JavaScript name they would share."""
    with pytest.raises(ToolNameCollision) as caught:
        ToolRegistry([Tool(name="other"), Tool(name=first), Tool(name=second)])
    assert (caught.value.fields, repr(first) in caught.value.detail) == (
        {"names": [first, second], "js_name": js_name(first)},
        True,
    )


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=4), max_size=8))
def test_tools_are_found_by_declared_name_or_refused(names: list[str]) -> None:
    """Sorted by JavaScript name; the collision is told exactly if there is one."""
    tools = [Tool(name=name) for name in names]
    made = [js_name(name) for name in names]
    if len(set(made)) < len(made):
        with pytest.raises(ToolNameCollision):
            ToolRegistry(tools)
        return
    registry = ToolRegistry(tools)
    assert registry.js_names == sorted(made)
    assert [found.tool.name for name in names if (found := registry.find(name)) is not None] == names
    assert registry.find("no such tool") is None


def test_what_a_cell_is_told_of_its_tools() -> None:
    """Name, kind and description by index, in the order in which calls name them."""
    registry = ToolRegistry([Tool(name="b", kind="freeform", description="é"), Tool(name="a")])
    told = json.loads(registry.declarations)
    assert (told, [registry[index].js_name for index in range(len(registry))]) == (
        [["a", "function", ""], ["b", "freeform", "é"]],
        ["a", "b"],
    )


@pytest.mark.parametrize(
    ("given_tool", "said"),
    [
        ({"name": "x" * 129}, "129 characters; at most 128"),
        ({"name": "a\ud800"}, "lone surrogate"),
        ({"name": "a", "description": "\udfff"}, "lone surrogate"),
        (
            {"name": "a", "kind": "freeform", "input_schema": {"type": "string"}},
            "takes a string and has no input_schema",
        ),
        ({"name": "a", "input_schema": {"type": "nonsense"}}, "tool a: input_schema is no JSON Schema"),
    ],
)
def test_a_tool_that_cannot_be_is_refused(given_tool: dict[str, Any], said: str) -> None:
    """With its name and the reason."""
    with pytest.raises(InvalidRequest) as caught:
        ToolRegistry([Tool(**given_tool)])
    assert said in caught.value.detail


def test_a_name_may_have_128_characters() -> None:
    """The limit itself is accepted."""
    assert ToolRegistry([Tool(name="x" * 128)]).js_names == ["x" * 128]


@given(st.text(max_size=20), st.text(max_size=20))
def test_any_text_is_a_name_and_a_description_or_refused(name: str, description: str) -> None:
    """Never anything but a registry or an error for the caller."""
    try:
        registry = ToolRegistry([Tool(name=name, description=description)])
    except CodeModeError:
        return
    assert json.loads(registry.declarations) == [[js_name(name), "function", description]]
