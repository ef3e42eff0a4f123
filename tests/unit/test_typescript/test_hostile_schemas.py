"""Schemas of a few kilobytes that stand for any number of types, or lead any number of levels deep."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from codemode.tools.registry import ToolRegistry
from codemode.tools.specs import declaration_of, tool_specs
from codemode.tools.tool import Tool
from codemode.typescript.declaring import type_of

SECONDS = 2.0  # the slowest takes 0.3 s on the machine that they were written on
MOST_TEXT = 60_000


def nested(wrap: Callable[[Any], Any]) -> Any:
    """So deep that nothing could be done level by level on the stack."""
    value: Any = {}
    for _ in range(100_000):
        value = wrap(value)
    return value


def chain(make: Callable[[str], Any], last: Any, levels: int = 60) -> Any:
    """Definitions of which each refers to the next."""
    definitions = {f"n{place}": make(f"#/$defs/n{place + 1}") for place in range(levels)}
    return {"$ref": "#/$defs/n0", "$defs": definitions | {f"n{levels}": last}}


def everybody(make: Callable[[list[Any]], Any]) -> Any:
    """Definitions that all refer to all."""
    references = [{"$ref": f"#/$defs/n{place}"} for place in range(100)]
    return {"$ref": "#/$defs/n0", "$defs": {f"n{place}": make(references) for place in range(100)}}


def itself() -> Any:
    schema: dict[str, Any] = {"type": "object"}
    schema["properties"] = {"self": schema}
    return schema


def twice(key: str) -> Callable[[str], Any]:
    return lambda next_: {key: [{"$ref": next_}, {"$ref": next_}], "properties": {"p": {"$ref": next_}}}


OBJECT = {"type": "object", "properties": {"z": {}}}
HOSTILE: dict[str, Callable[[], Any]] = {
    "deep properties": lambda: nested(lambda inner: {"type": "object", "properties": {"a": inner}}),
    "deep items": lambda: nested(lambda inner: {"items": inner}),
    "deep allOf": lambda: nested(lambda inner: {"allOf": [inner]}),
    "deep anyOf": lambda: nested(lambda inner: {"anyOf": [inner, {"type": "null"}]}),
    "deep values": lambda: {"const": nested(lambda inner: [inner]), "default": nested(lambda inner: {"a": inner})},
    "twice allOf": lambda: chain(twice("allOf"), OBJECT),
    "twice anyOf": lambda: chain(twice("anyOf"), OBJECT),
    "twice oneOf": lambda: chain(twice("oneOf"), {"type": "string"}),
    "twice a property": lambda: chain(
        lambda next_: {"type": "object", "properties": {"l": {"$ref": next_}, "r": {"$ref": next_}}}, {"type": "string"}
    ),
    "twice what is merged": lambda: chain(
        lambda next_: {
            "allOf": [{"$ref": next_}],
            "properties": {"p" + next_[-2:]: {"allOf": [{"$ref": next_}], "properties": {"q": {}}}},
        },
        OBJECT,
    ),
    "a long chain": lambda: chain(lambda next_: {"$ref": next_}, OBJECT, 10_000),
    "a chain used everywhere": lambda: {
        "type": "object",
        "properties": {f"p{place}": {"$ref": f"#/$defs/n{place}"} for place in range(900)},
        "$defs": {
            f"n{place}": {"anyOf": [{"$ref": f"#/$defs/n{place - 1}"}, {"properties": {f"x{place}": {}}}]}
            for place in range(900)
        },
    },
    "all to all in properties": lambda: everybody(
        lambda all_: {"type": "object", "properties": {f"p{place}": each for place, each in enumerate(all_)}}
    ),
    "all to all in anyOf": lambda: everybody(lambda all_: {"anyOf": all_}),
    "all to all in allOf": lambda: everybody(lambda all_: {"allOf": all_, "properties": {"x": {}}}),
    "circles": lambda: {"allOf": [{"$ref": "#"}], "anyOf": [{"$ref": "#"}, {"$ref": "#/allOf/0"}]},
    "a dict in itself": itself,
    "one name for many types": lambda: {
        "type": "object",
        "properties": {f"p{place}": {"$ref": f"#/$defs/{place}/Node"} for place in range(300)},
        "$defs": {
            str(place): {"Node": {"type": "object", "properties": {f"n{place}": {"$ref": f"#/$defs/{place}/Node"}}}}
            for place in range(300)
        },
    },
    "many values": lambda: {"enum": [f"value {place}" for place in range(100_000)]},
    "numbers of many digits": lambda: {
        "const": 10**5000,
        "default": 10**5000,
        "minimum": 10**5000,
        "enum": [10**5000] * 100,
    },
    "many properties": lambda: {
        "type": "object",
        "properties": {f"p{place}": {"description": "x " * 500} for place in range(50_000)},
    },
    "many required": lambda: {"type": "object", "required": [f"p{place}" for place in range(50_000)]},
    "many alternatives": lambda: {
        key: [{"type": "object", "properties": {f"p{place}": {}}} for place in range(1000)]
        for key in ("anyOf", "oneOf")
    },
    "many unions": lambda: {
        "properties": {
            f"p{place}": {
                "anyOf": [{"enum": [f"{'x' * 190}{60 * one + two}" for two in range(60)]} for one in range(50)]
            }
            for place in range(50)
        }
    },
    "unions that meet": lambda: {
        "allOf": [{"anyOf": [{"enum": [60 * one + two for two in range(60)]} for one in range(900)]} for _ in range(10)]
    },
    "long texts": lambda: {
        "type": "string",
        "description": "`*/" * 1_000_000,
        "pattern": "a" * 1_000_000,
        "format": "\u2028" * 1_000_000,
    },
    "a long name": lambda: {"type": "object", "properties": {"x" * 1_000_000: {}}, "required": ["y" * 1_000_000]},
    "a long pointer": lambda: {"$ref": "#" + "/a" * 500_000},
    "a reference that is none": lambda: {"$ref": "http://[", "$id": "http://[x"},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_schema_is_a_bounded_type(name: str) -> None:
    """In bounded time, too."""
    schema = HOSTILE[name]()
    began = time.perf_counter()
    text = type_of(schema)
    assert time.perf_counter() - began < SECONDS
    assert len(text) < MOST_TEXT
    assert text == type_of(schema)


@pytest.mark.parametrize("name", [name for name in HOSTILE if "deep" not in name])
def test_a_hostile_declaration_compiles(name: str, faults: Any) -> None:
    """What is left of it is TypeScript."""
    (registered,) = ToolRegistry([Tool(name="t", output_schema=HOSTILE[name]())])
    assert faults(declaration_of(registered)) == []


@pytest.mark.timeout(60)
def test_a_thousand_of_them_are_described_in_bounded_time() -> None:
    """As many as a session may have."""
    schema = HOSTILE["all to all in properties"]()
    registry = ToolRegistry([Tool(name=f"t{place}", output_schema=schema) for place in range(1000)])
    began = time.perf_counter()
    tool_specs(registry, "mcp")
    assert time.perf_counter() - began < 5 * SECONDS
