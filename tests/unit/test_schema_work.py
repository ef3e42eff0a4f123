"""Schemas that would take the event loop, or its stack, for themselves: they are refused before anything is done."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from codemode.errors import InvalidRequest
from codemode.tools.registry import ToolRegistry
from codemode.tools.schema import InputSchema
from codemode.tools.schema_work import Work, work_of
from codemode.tools.tool import Tool


def again_and_again(keyword: str, levels: int = 30) -> dict[str, Any]:
    """Each level refers to the next one twice."""
    defs: dict[str, Any] = {f"a{i}": {keyword: [{"$ref": f"#/$defs/a{i + 1}"}] * 2} for i in range(levels)}
    return {"$ref": "#/$defs/a0", "$defs": {**defs, f"a{levels}": {"type": "string"}}}


def in_a_row(levels: int) -> dict[str, Any]:
    """Each level refers to the next one."""
    defs: dict[str, Any] = {f"a{i}": {"$ref": f"#/$defs/a{i + 1}"} for i in range(levels)}
    return {"$ref": "#/$defs/a0", "$defs": {**defs, f"a{levels}": {"properties": {"x": {"$ref": "#/$defs/a0"}}}}}


BY_ANCHORS = {
    "$ref": "#a0",
    "$defs": {
        **{f"a{i}": {"$anchor": f"a{i}", "allOf": [{"$ref": f"#a{i + 1}"}] * 2} for i in range(30)},
        "end": {"$anchor": "a30"},
    },
}
BY_IDS = {
    "$id": "http://a.example/",
    "$ref": "a0",
    "$defs": {
        **{f"a{i}": {"$id": f"a{i}", "allOf": [{"$ref": f"/a{i + 1}"}] * 2} for i in range(30)},
        "end": {"$id": "a30"},
    },
}
DYNAMIC = {
    "$dynamicRef": "#a0",
    "$defs": {
        **{f"a{i}": {"$dynamicAnchor": f"a{i}", "allOf": [{"$dynamicRef": f"#a{i + 1}"}] * 2} for i in range(30)},
        "end": {"$dynamicAnchor": "a30"},
    },
}


@pytest.mark.parametrize(
    "schema",
    [
        again_and_again("allOf"),
        again_and_again("anyOf"),
        again_and_again("oneOf"),
        BY_ANCHORS,
        BY_IDS,
        DYNAMIC,
        in_a_row(100),
        in_a_row(60_000),
        {"properties": {f"p{each}": {"pattern": r"\p{L}{150}"} for each in range(100)}},
        {"pattern": "(a{1,1000}){1,1000}$"},
        {"patternProperties": {r"(?:\P{L}{20}){1,200}": True} | {f"k{each}": True for each in range(100)}},
    ],
    ids=[
        "allOf",
        "anyOf",
        "oneOf",
        "anchors",
        "ids",
        "dynamic",
        "100 in a row",
        "60 000 in a row",
        "patterns",
        "a pattern",
        "names",
    ],
)
def test_a_schema_that_makes_too_much_work_is_refused(schema: Any) -> None:
    """At once: without this, one check took ten seconds and more, or the process ended for want of stack."""
    began = time.perf_counter()
    with pytest.raises(InvalidRequest) as caught:
        InputSchema("t", schema)
    assert "tool t: input_schema makes too much work: " in caught.value.detail
    assert time.perf_counter() - began < 2


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"items": {"enum": [*range(10_000)]}}, [-1.5] * 100_000),
        ({"items": {"allOf": [{"minimum": -each} for each in range(5000)]}}, [1] * 100_000),
        ({"allOf": [{"pattern": f"z{each}$"} for each in range(500)]}, "a" * 500_000),
        ({"pattern": r"(\p{L}{150}|\w{100}|\S{90})+$"}, "a" * 900_000 + " "),
    ],
    ids=["enum", "allOf", "patterns", "repetitions"],
)
def test_an_input_that_would_take_long_is_not_checked(schema: Any, value: Any) -> None:
    """Each of them held up everybody for seconds, the first one for half an hour."""
    checked, size = InputSchema("t", schema), len(json.dumps(value))
    began = time.perf_counter()
    assert checked.fault(value, size) == "t: input that is too large to be checked against its schema"
    assert time.perf_counter() - began < 0.5


def test_the_first_fault_is_told_without_the_others() -> None:
    """To write down thousands of faults, each with a thousand alternatives, took many seconds."""
    schema, value = InputSchema("t", {"items": {"enum": [*range(1000)]}}), [-1.5] * 10_000
    began = time.perf_counter()
    said = schema.fault(value, len(json.dumps(value)))
    assert said == "t: input[0]: -1.5 is not one of 0, 1 or 998 other candidates"
    assert time.perf_counter() - began < 1


@pytest.mark.parametrize(
    ("schema", "work"),
    [
        (True, Work(1, 0, 1)),
        ({"enum": [1, 2, 3]}, Work(4, 0, 1)),
        ({"properties": {"a": {"pattern": "x"}, "enum": {}}}, Work(3, 1, 2, 1)),
        ({"patternProperties": {"(a{2}){1,3}": {}}}, Work(2, 6, 2, 66)),
        ({"$ref": "#"}, Work(2, 0, 2)),
        ({"items": {"$ref": "#"}, "$defs": {"a": {}}, "default": {"a": {}}}, Work(3, 0, 3)),
        ({"$defs": {"a/b~c d": {}}, "$ref": "#/$defs/a~1b~0c%20d"}, Work(2, 0, 2)),
        (again_and_again("allOf", 3), Work(30, 0, 8)),
    ],
    ids=str,
)
def test_what_a_schema_costs(schema: Any, work: Work) -> None:
    """A part that is referred to counts each time, one that leads back to itself once, data not at all."""
    assert work_of(schema) == work


def test_usual_schemas_and_inputs_are_checked() -> None:
    """A long text, a long list, and a tree that goes as deep as inputs may."""
    node: dict[str, Any] = {"anyOf": [{"type": "null"}, {"type": "object", "additionalProperties": {"$ref": "#"}}]}
    tree: Any = None
    for _ in range(199):
        tree = {"x": tree}
    wide = {"properties": {f"p{each}": {"type": "string"} for each in range(500)}}
    for schema, value in (
        (node, tree),
        (wide, {"p1": "a," * 500_000}),
        ({"items": {"enum": ["a", "b"]}}, ["a"] * 200_000),
    ):
        assert InputSchema("t", schema).fault(value, len(json.dumps(value))) is None


def test_a_reference_that_is_not_found_is_named() -> None:
    """What is told nowhere in the schema cannot be measured, and is not asked for elsewhere."""
    with pytest.raises(InvalidRequest, match="is no JSON Schema: it refers to #nowhere; only references within"):
        InputSchema("t", {"$ref": "#nowhere"})


def test_the_patterns_of_all_tools_count_together() -> None:
    """One session could have a thousand tools, each with a schema that takes half a second to be compiled."""
    schema = {"properties": {f"p{each}": {"pattern": r"\p{L}{50}"} for each in range(40)}}
    tools = [Tool(name=f"t{each}", input_schema=schema) for each in range(10)]
    assert len(ToolRegistry(tools[:1])) == 1
    with pytest.raises(InvalidRequest, match="the patterns in the schemas of all tools"):
        ToolRegistry(tools)
