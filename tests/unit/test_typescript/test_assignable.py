"""The TypeScript compiler takes every declaration, and for every value that a schema allows."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codemode.tools.registry import ToolRegistry
from codemode.tools.specs import declaration_of, tool_specs
from codemode.tools.tool import Tool
from codemode.typescript.declaring import Signature, block_of, declaration, type_of
from codemode.typescript.naming import TypeNames
from codemode.typescript.work import Work
from tests.blackbox.runner.typescript import TypeScript
from tests.unit.test_typescript.generated import JSON, schemas

pytestmark = pytest.mark.timeout(300)  # the first one may have to install the compiler
Compile = Callable[[str], list[str]]
RELAXED = settings(suppress_health_check=list(HealthCheck))

KEYWORDS = [
    *("$ref", "$defs", "$id", "$anchor", "type", "enum", "const", "properties", "required", "additionalProperties"),
    *(
        "patternProperties",
        "items",
        "prefixItems",
        "additionalItems",
        "minItems",
        "maxItems",
        "allOf",
        "anyOf",
        "oneOf",
    ),
    *(
        "not",
        "if",
        "then",
        "else",
        "dependentSchemas",
        "nullable",
        "format",
        "default",
        "minimum",
        "maximum",
        "pattern",
    ),
    *("description", "unevaluatedProperties", "multipleOf", "deprecated", "exclusiveMinimum", "minLength", "title"),
]
WORDS = st.sampled_from(
    ["#", "#/", "#/$defs/a", "#/properties/a", "#a", "http://h.invalid/", "a", "string", "object", "array"]
)
ODD: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | WORDS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["a", "b", "*/", ""]), inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYWORDS), inner, max_size=5)
        | st.fixed_dictionaries({"type": st.just("object"), "properties": st.dictionaries(WORDS, inner, max_size=3)})
    ),
    max_leaves=30,
)


@settings(RELAXED, max_examples=150)
@given(st.data())
def test_valid_values_can_be_given(faults: Compile, data: st.DataObject) -> None:
    """What the schema allows is assignable to the type, written out where it is handed over."""
    made = data.draw(schemas())
    validator = jsonschema_rs.validator_for(made.schema)
    values = [value for value in data.draw(st.lists(made.values, max_size=4)) if validator.is_valid(value)]
    declared = declaration_of(ToolRegistry([Tool(name="t", input_schema=made.schema, output_schema=made.schema)])[0])
    calls = [f"tools.t({json.dumps(value)});" for value in values]
    assert faults("\n".join([declared, *calls])) == [], declared


@settings(RELAXED, max_examples=150)
@given(ODD, ODD)
def test_whatever_a_schema_is_its_declaration_is_valid(faults: Compile, one: Any, other: Any) -> None:
    """And is the same when it is made again."""
    text = _declared(one, other)
    assert faults(text) == [], text
    TypeScript(text).declarations()
    assert text == _declared(one, other)


@settings(RELAXED, max_examples=40)
@given(st.lists(schemas(), min_size=1, max_size=6))
def test_declarations_side_by_side_are_valid(faults: Compile, made: list[Any]) -> None:
    """Types of different tools may have one name in their schemas."""
    tools = [
        Tool(name=f"t{place}", input_schema=each.schema, description="*/ ```\nx") for place, each in enumerate(made)
    ]
    (exec_, _) = tool_specs(ToolRegistry(tools), "mcp", most_tokens=50_000)
    (block,) = exec_["description"].split("```ts\n")[1:]
    text = block.removesuffix("\n```")
    assert "```" not in text
    assert faults(text) == [], text


@given(JSON)
def test_any_value_is_a_literal_type(faults: Compile, value: Any) -> None:
    """Of `const`, an array or object too."""
    text = f"const v: {type_of({'const': value})} = {json.dumps(value)};"
    assert faults(text) == [], text


def _declared(one: Any, other: Any) -> str:
    """Without the registry, which would refuse most of them."""
    tool = Signature("t", "", is_freeform=False, input_schema=one, output_schema=other)
    return block_of([declaration(tool, TypeNames(), Work())])
