"""Inputs against JSON Schemas: the message names place and expectation, nothing is fetched, nothing hangs."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codemode.errors import InvalidRequest
from codemode.tools.schema import InputSchema

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 5},
        "age": {"type": "integer", "minimum": 0},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}},
        "a.b": {"type": "boolean"},
    },
    "required": ["name"],
    "additionalProperties": False,
}
MIB = 1024 * 1024


def refusal(schema: Any) -> str:
    with pytest.raises(InvalidRequest) as caught:
        InputSchema("t", schema)
    return caught.value.detail


def nested(levels: int) -> Any:
    """An object in an object, so deep."""
    value: Any = {}
    for _ in range(levels):
        value = {"o": value}
    return value


@pytest.mark.parametrize(
    ("given_input", "said"),
    [
        ({}, 't: input: "name" is a required property'),
        ([], 't: input: [] is not of type "object"'),
        (None, 't: input: null is not of type "object"'),
        ({"name": 1}, 't: input.name: 1 is not of type "string"'),
        ({"name": "longer"}, 't: input.name: "longer" is longer than 5 characters'),
        ({"name": "x", "age": -1}, "t: input.age: -1 is less than the minimum of 0"),
        ({"name": "x", "age": 1.5}, 't: input.age: 1.5 is not of type "integer"'),
        ({"name": "x", "tags": ["a", "c"]}, 't: input.tags[1]: "c" is not one of "a" or "b"'),
        ({"name": "x", "a.b": 0}, 't: input.a.b: 0 is not of type "boolean"'),
        ({"name": "x", "z": 1}, "t: input: Additional properties are not allowed ('z' was unexpected)"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_the_message_names_the_place_and_what_was_expected(given_input: Any, said: str) -> None:
    """So that a model can mend its call without another look at the schema."""
    assert InputSchema("t", PERSON).fault(given_input) == said


@pytest.mark.parametrize("given_input", [{"name": "x"}, {"name": "", "age": 0, "tags": ["b"], "a.b": True}])
def test_what_fits_has_no_fault(given_input: Any) -> None:
    """Whole numbers written as floats are integers, too."""
    schema = InputSchema("t", PERSON)
    assert (schema.fault(given_input), schema.fault({"name": "x", "age": 3.0})) == (None, None)


@pytest.mark.parametrize(
    ("schema", "given_input", "fits"),
    [
        (True, {}, True),
        (False, {}, False),
        ({}, {"a": 1}, True),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}}, {}, True),
        ({"$ref": "#"}, {}, True),
        ({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}, {}, True),
        ({"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 5, "exclusiveMinimum": True}, 5, False),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "const": 5}, 4, False),
        ({"$schema": "https://json-schema.org/draft/2020-12/schema", "prefixItems": [{"type": "null"}]}, [1], False),
        ({"prefixItems": [{"type": "null"}]}, [1], False),
        ({"nonsense": {"more": 1}, "format": "of my own"}, "x", True),
    ],
)
def test_drafts_and_references_within_the_schema(schema: Any, given_input: Any, fits: bool) -> None:
    """Draft 4 to 2020-12 by `$schema`; references that go round in circles end."""
    assert (InputSchema("t", schema).fault(given_input) is None) == fits


@pytest.mark.parametrize(
    "reference",
    ["http://a.example/s", "https://a.example/s#x", "file:///etc/passwd", "/etc/passwd", "other.json", "//a.example/s"],
)
@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef"])
def test_a_reference_to_elsewhere_is_refused(keyword: str, reference: str) -> None:
    """Neither the network nor a file is touched; who made the schema is told."""
    assert "input_schema is no JSON Schema" in refusal({keyword: reference})


@pytest.mark.parametrize(
    "schema",
    [
        {"$id": "file:///etc/", "$ref": "passwd"},
        {"$id": "http://a.example/", "properties": {"a": {"$ref": "b"}}},
        {"$schema": "http://a.example/meta"},
        {"$schema": "file:///etc/passwd"},
        {"$schema": 5},
        {"$ref": "#/$defs/missing"},
        {"type": "text"},
        {"type": ["string", "text"]},
        {"minimum": "0"},
        {"required": "name"},
        {"properties": []},
        {"pattern": "("},
        {"patternProperties": {"[": {}}},
        {"items": 5},
        {"anyOf": []},
        5,
        None,
        [],
    ],
    ids=str,
)
def test_what_is_no_schema_is_refused(schema: Any) -> None:
    """In one line, which names the tool."""
    said = refusal(schema)
    assert (said.startswith("tool t: input_schema is no JSON Schema: "), "\n" in said, len(said) < 300) == (
        True,
        False,
        True,
    )


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(json_values)
def test_any_input_fits_or_has_a_fault_in_words(value: Any) -> None:
    """NaN, huge numbers, lone surrogates: whatever JSON.parse may give is judged without an exception."""
    said = InputSchema("t", PERSON).fault(value)
    assert said is None or said.startswith("t: input")


@given(
    st.recursive(
        json_values,
        lambda inner: st.dictionaries(
            st.sampled_from(["type", "properties", "anyOf", "$ref", "items", "pattern", "enum"]), inner
        ),
    )
)
def test_any_schema_is_compiled_or_refused(schema: Any) -> None:
    """Whatever somebody declares, the answer is a tool or an InvalidRequest."""
    try:
        compiled = InputSchema("t", schema)
    except InvalidRequest:
        return
    compiled.fault({"type": 1})


@pytest.mark.parametrize("value", ["\ud800", {"name": "\ud800\udc00x" * 3}, {"name": "x", "\udfff": 1}], ids=ascii)
def test_lone_surrogates_do_no_harm(value: Any) -> None:
    """A script may send them; the message can be sent back."""
    said = InputSchema("t", PERSON).fault(value)
    assert said is not None
    said.encode("utf-8", "replace")


@pytest.mark.parametrize("levels", [100, 254, 256, 400, 900])
@pytest.mark.parametrize(
    "schema",
    [
        PERSON,
        {"type": "array"},
        {"const": 1},
        {"not": {}},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"$ref": "#/$defs/n", "$defs": {"n": {"properties": {"o": {"$ref": "#/$defs/n"}}, "required": ["o"]}}},
    ],
    ids=lambda schema: next(iter(schema)) + str(len(schema)),
)
def test_a_deep_input_is_a_fault_and_no_exception(schema: Any, levels: int) -> None:
    """As deep as JSON can be read here: that call fails, with a message; the cell goes on."""
    assert (InputSchema("t", schema).fault(nested(levels)) or "").startswith("t: input")


def test_the_message_is_bounded() -> None:
    """Neither a long value nor long names make a long message."""
    schema = InputSchema("t", {"additionalProperties": {"additionalProperties": {"type": "string"}}})
    for value in ({"a": {"b": ["x" * MIB]}}, {"a" * MIB: {"b": 1}}, {"a": {"b" * MIB: 1}}):
        assert len(schema.fault(value) or "") < 2000


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+$",
        "^(a|a)*$",
        "^(a|aa)+$",
        "(a{1,100}){1,100}$",
        "(?=(a+)+$)a",
        "(?<!b)a*c",
        r"(a+)+\1$",
        r"^(?:(?=(\w+))\1)*!!$",
        "(.*)*x(.*)*y(.*)*",
    ],
)
@pytest.mark.parametrize("keyword", ["pattern", "patternProperties"])
def test_a_hostile_pattern_cannot_hang(keyword: str, pattern: str) -> None:
    """The check runs in the event loop: the longest input against any pattern takes a moment at most."""
    text = "a" * 30_000 + "!"
    schema: Any = {"properties": {"a": {"pattern": pattern}}}
    value: Any = {"a": text}
    if keyword == "patternProperties":
        schema, value = {"patternProperties": {pattern: False}}, {text: 1}
    compiled = InputSchema("t", schema)
    began = time.process_time()
    compiled.fault(value)
    assert time.process_time() - began < 0.5


def test_patterns_of_common_libraries_work() -> None:
    """Look-aheads, as e-mail addresses and passwords are described with, are no reason to refuse a schema."""
    email = r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$"
    password = r"^(?=.*[A-Z])(?=.*\d)[A-Za-z\d]{8,}$"
    schema = InputSchema("t", {"properties": {"email": {"pattern": email}, "password": {"pattern": password}}})
    fits = {"email": f"first.last@{'b' * 60}.sub.example.org", "password": "a" * 200 + "B1"}
    assert [schema.fault(fits), schema.fault({"email": "a..b@c.de"}) is None] == [None, False]


def branching(keyword: str) -> Any:
    """Each level of the input is looked at twice, in two branches."""
    step = {"properties": {"o": {"$ref": "#/$defs/n"}}}
    ends = [step | {"required": ["y"]}, step | {"required": ["z"]}] if keyword == "anyOf" else [step, step]
    return {"$defs": {"n": {keyword: ends}}, "$ref": "#/$defs/n"}


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
def test_branches_in_branches_cannot_hang(keyword: str) -> None:
    """A tiny schema that doubles the work at each level: fourteen levels are already too many to explain naively."""
    compiled = InputSchema("t", branching(keyword))
    began = time.process_time()
    said = compiled.fault(nested(14))
    assert (said is None, time.process_time() - began < 0.2) == (False, True)


def test_a_chain_of_branches_cannot_hang() -> None:
    """The same without any depth in the input: definitions that each refer twice to the next one."""
    levels = 14
    definitions: dict[str, Any] = {
        f"l{level}": {"anyOf": [{"$ref": f"#/$defs/l{level + 1}"}, {"$ref": f"#/$defs/l{level + 1}"}]}
        for level in range(levels)
    }
    definitions[f"l{levels}"] = {"type": "array"}
    compiled = InputSchema("t", {"$defs": definitions, "$ref": "#/$defs/l0"})
    began = time.process_time()
    said = compiled.fault({})
    assert (said is None, time.process_time() - began < 0.2) == (False, True)


def test_a_schema_may_come_as_pydantic_makes_it() -> None:
    """Titles, defaults, nullable fields and definitions, as of the `tool` decorator."""
    schema = {
        "$defs": {"P": {"properties": {"x": {"title": "X", "type": "integer"}}, "required": ["x"], "type": "object"}},
        "properties": {
            "p": {"$ref": "#/$defs/P"},
            "q": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None, "title": "Q"},
        },
        "required": ["p"],
        "additionalProperties": False,
        "type": "object",
    }
    compiled = InputSchema("t", json.loads(json.dumps(schema)))
    assert [compiled.fault({"p": {"x": 1}, "q": None}), compiled.fault({"p": {"x": "1"}})] == [
        None,
        't: input.p.x: "1" is not of type "integer"',
    ]
