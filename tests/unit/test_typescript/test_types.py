"""JSON Schemas of all drafts and spellings, each with the type that a model reads."""

from __future__ import annotations

import json
from typing import Any

import pytest

from codemode.typescript.declaring import type_of
from tests.blackbox.runner.typescript import TypeScript


def of(schema: Any, **properties: Any) -> dict[str, Any]:
    """An object schema around one property `p`, or around several."""
    return {"type": "object", "properties": properties or {"p": schema}}


TEXT = {"type": "string"}
POINT = {"type": "object", "properties": {"x": {"type": "number"}, "y": {"type": "number"}}, "required": ["x", "y"]}
TREE = {"type": "object", "properties": {"v": TEXT, "kids": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}}}
ADDRESS = of(None, street=TEXT, city=TEXT, country={"enum": ["de", "fr", "it"]}, code={"type": "string"})

CORPUS: dict[str, tuple[Any, str]] = {
    "scalars": (
        of(None, a=TEXT, b={"type": "integer"}, c={"type": "number"}, d={"type": "boolean"}, e={"type": "null"}),
        "{ a?: string; b?: number; c?: number; d?: boolean; e?: null }",
    ),
    "required": ({**of(TEXT), "required": ["p", "q"]}, "{ p: string; q: unknown }"),
    "anything": (True, "unknown"),
    "an empty schema": ({}, "unknown"),
    "nothing": (False, "never"),
    "not anything": ({"not": {}}, "never"),
    "a forbidden property": (of(False), "{ p?: never }"),
    "no schema": (5, "unknown"),
    "an unknown type": ({"type": "nope"}, "unknown"),
    "several types": ({"type": ["string", "integer", "number", "null"]}, "string | number | null"),
    "no type, but properties": ({"properties": {"p": TEXT}}, "{ p?: string }"),
    "no type, but items": ({"items": TEXT}, "string[]"),
    # nullable, in all spellings
    "null in a list": ({"type": ["string", "null"]}, "string | null"),
    "null beside": ({"anyOf": [TEXT, {"type": "null"}]}, "string | null"),
    "nullable": ({"type": "string", "nullable": True}, "string | null"),
    "nullable reference": ({"$ref": "#/$defs/a", "nullable": True, "$defs": {"a": TEXT}}, "string | null"),
    "nullable enum": ({"type": "string", "nullable": True, "enum": ["a", None]}, '"a" | null'),
    "nullable with facts": (
        of({"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}], "default": None}),
        "{ p?: number | null /* >= 1 */ }",
    ),
    # values
    "enum": ({"enum": ["red", "green"]}, '"red" | "green"'),
    "enum of every kind": (
        {"enum": ["a", 1, -1.5, True, None, ["b", 2], {"c": [False], "d-e": {}}]},
        '"a" | 1 | -1.5 | true | null | ["b", 2] | { c: [false]; "d-e": {} }',
    ),
    "enum and type": ({"type": ["string", "null"], "enum": ["a", 1, None]}, '"a" | null'),
    "both booleans": ({"enum": [True, "x", False]}, 'boolean | "x"'),
    "const": ({"const": 7}, "7"),
    "an empty enum": ({"enum": []}, "unknown"),
    "numbers without a literal": ({"enum": [10**30, float("inf"), 1.0, -0.0, 1e-7]}, "number | 1 | 0 | 1e-07"),
    "many values": (
        {"type": "string", "enum": [f"value{place}" for place in range(200)]},
        'string /* one of 200: "value0", "value1", "value2", "value3", "value4", … */',
    ),
    "one of values with a description each": (
        {"oneOf": [{"const": "a", "description": "first"}, {"const": "b", "description": "second"}]},
        '"a" /* first */ | "b" /* second */',
    ),
    # arrays
    "array": ({"type": "array", "items": TEXT}, "string[]"),
    "array of anything": ({"type": "array"}, "unknown[]"),
    "array of either": ({"type": "array", "items": {"type": ["string", "null"]}}, "(string | null)[]"),
    "array of arrays": ({"type": "array", "items": {"type": "array", "items": POINT}}, "{ x: number; y: number }[][]"),
    "array of nothing": ({"type": "array", "items": False}, "[]"),
    "facts of items": (
        of({"type": "array", "items": {"type": "string", "format": "uri"}, "minItems": 1, "uniqueItems": True}),
        "{ p?: string[] /* items >= 1, unique, each uri */ }",
    ),
    "closed tuple": (
        {"type": "array", "prefixItems": [TEXT, {"type": "number"}], "items": False, "minItems": 2},
        "[string, number]",
    ),
    "closed tuple, draft 7": ({"type": "array", "items": [TEXT], "additionalItems": False, "minItems": 1}, "[string]"),
    "tuple closed by its length": (
        {"type": "array", "prefixItems": [TEXT, TEXT], "minItems": 2, "maxItems": 2},
        "[string, string]",
    ),
    "tuple of which the end may be missing": (
        {"type": "array", "prefixItems": [TEXT, {"type": ["number", "null"]}], "items": False, "minItems": 1},
        "[string, (number | null)?]",
    ),
    "open tuple": ({"type": "array", "items": [TEXT], "minItems": 1}, "[string, ...unknown[]]"),
    "tuple and rest": ({"prefixItems": [TEXT], "items": {"type": "number"}}, "[string?, ...number[]]"),
    # objects
    "any object": ({"type": "object"}, "object"),
    "no properties": ({"type": "object", "properties": {}, "additionalProperties": False}, "{}"),
    "further properties": ({**of(TEXT), "additionalProperties": True}, "{ p?: string; [key: string]: unknown }"),
    "a map": ({"type": "object", "additionalProperties": {"type": "number"}}, "{ [key: string]: number }"),
    "a map of one type": (
        {**of(TEXT), "required": ["p"], "additionalProperties": TEXT},
        "{ p: string; [key: string]: string }",
    ),
    "a map that its properties do not fit": (
        {**of(TEXT), "additionalProperties": {"type": "number"}},
        "{ p?: string; [key: string]: unknown /* number */ }",
    ),
    "patterns": (
        {
            "type": "object",
            "patternProperties": {"^x-": TEXT, "^n-": {"type": "number"}},
            "additionalProperties": False,
        },
        "{ [key: string]: string | number /* /^x-/ or /^n-/ */ }",
    ),
    "unevaluated": ({"type": "object", "unevaluatedProperties": TEXT}, "{ [key: string]: string }"),
    "nested": (of(of(of(TEXT))), "{ p?: { p?: { p?: string } } }"),
    "names": (
        of(
            None,
            **{"content-type": TEXT, "2fa": TEXT, "class": TEXT, 'q"': TEXT, "中": TEXT, "": TEXT, "__proto__": TEXT},
        ),
        '{\n  "content-type"?: string;\n  "2fa"?: string;\n  class?: string;\n  "q\\""?: string;\n  "中"?: string;\n'
        '  ""?: string;\n  __proto__?: string;\n}',
    ),
    # combinations
    "allOf": (
        {"allOf": [{**of(None, a=TEXT), "additionalProperties": False}, {**of(None, b=TEXT), "required": ["b"]}]},
        "{ a?: string; b: string }",
    ),
    "allOf refines": (
        {"allOf": [of(None, a=TEXT), {"properties": {"a": {"enum": ["x", 1]}}, "required": ["a"]}]},
        '{ a: "x" }',
    ),
    "allOf of what cannot be": ({"allOf": [TEXT, {"type": "number"}]}, "never"),
    "anyOf": ({"anyOf": [TEXT, {"type": "array", "items": TEXT}, TEXT]}, "string | string[]"),
    "alternatives beside properties": (
        {**of(None, a=TEXT), "oneOf": [{"required": ["id"]}, {"properties": {"slug": TEXT}, "required": ["slug"]}]},
        "{ a?: string } & ({ id: unknown } | { slug: string })",
    ),
    "alternatives of which one fits": ({"type": "string", "anyOf": [{"const": "a"}, {"const": 1}]}, '"a"'),
    "conditions": (
        {
            **of(None, a=TEXT),
            "if": {"required": ["a"]},
            "then": {"properties": {"b": TEXT}},
            "else": {"required": ["c"]},
        },
        "{ a?: string; b?: string; c?: unknown }",
    ),
    # references
    "a definition": (
        of(None, a={"$ref": "#/definitions/P"}) | {"definitions": {"P": POINT}},
        "{ a?: { x: number; y: number } }",
    ),
    "what stands beside a reference": (
        {"$ref": "#/$defs/P", "properties": {"z": TEXT}, "required": ["z"], "$defs": {"P": POINT}},
        "{ z: string; x: number; y: number }",
    ),
    "a description beside a reference": (
        of({"$ref": "#/$defs/P", "description": "Here"}) | {"$defs": {"P": {**POINT, "description": "A point"}}},
        "{ p?: { x: number; y: number } /* Here */ }",
    ),
    "the description of a reference": (
        of({"$ref": "#/$defs/P"}) | {"$defs": {"P": {**TEXT, "description": "A text"}}},
        "{ p?: string /* A text */ }",
    ),
    "a pointer": (
        of(None, a=POINT, b={"$ref": "#/properties/a/properties/x"}),
        "{ a?: { x: number; y: number }; b?: number }",
    ),
    "an escaped pointer": ({"$ref": "#/$defs/a~1b%20c", "$defs": {"a/b c": TEXT}}, "string"),
    "an anchor": ({"$ref": "#here", "$defs": {"a": {"$anchor": "here", **TEXT}}}, "string"),
    "an anchor, draft 7": ({"$ref": "#here", "definitions": {"a": {"$id": "#here", **TEXT}}}, "string"),
    "an identity": (
        {
            "$id": "http://x.test/a/root.json",
            "$ref": "leaf.json#/$defs/b",
            "$defs": {"l": {"$id": "leaf.json", "$defs": {"b": TEXT}}},
        },
        "string",
    ),
    "a reference to elsewhere": ({"$ref": "http://h.invalid/x.json"}, "unknown"),
    "a reference to nothing": ({"$ref": "#/nope"}, "unknown"),
    "a circle": ({"$ref": "#"}, "unknown"),
    "itself or a text": ({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, TEXT]}}}, "unknown"),
    "a tree": (
        {"$ref": "#/$defs/Tree", "$defs": {"Tree": TREE}},
        "type Tree = { v?: string; kids?: Tree[] };\nTree",
    ),
    "itself": (of({"$ref": "#"}), "type Root = { p?: Root };\nRoot"),
    "a definition used twice": (
        of(None, a={"$ref": "#/$defs/Address"}, b={"$ref": "#/$defs/Address"}) | {"$defs": {"Address": ADDRESS}},
        'type Address = { street?: string; city?: string; country?: "de" | "fr" | "it"; code?: string };\n'
        "{ a?: Address; b?: Address }",
    ),
    "names of types": (
        of(None, a={"$ref": "#/$defs/string"}, b={"$ref": "#/$defs/a-b"})
        | {"$defs": {"string": of({"$ref": "#/$defs/string"}), "a-b": of({"$ref": "#/$defs/a-b"})}},
        "type Tstring = { p?: Tstring };\ntype a_b = { p?: a_b };\n{ a?: Tstring; b?: a_b }",
    ),
    # comments
    "facts": (
        of(
            None,
            a={"type": "integer", "minimum": 1, "maximum": 100, "default": 10, "description": "How many"},
            b={"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.5},
            c={"type": "string", "format": "date-time", "maxLength": 5, "pattern": "^a*/b$", "deprecated": True},
        ),
        "{\n  a?: number; // How many (1..100, default 10)\n  b?: number; // > 0, multiple of 0.5\n"
        "  c?: string; // date-time, length <= 5, /^a*/b$/, deprecated\n}",
    ),
    "a comment before what takes several lines": (
        of({**of(None, **{f"property_{place}": TEXT for place in range(6)}), "description": "All of them"}),
        "{\n  // All of them\n  p?: {\n"
        + "".join(f"    property_{place}?: string;\n" for place in range(6))
        + "  };\n}",
    ),
    "text that would leave its comment": (
        of({**TEXT, "description": "a */ b\r\n```\u2028// \u202ec\ud800"}),
        "{ p?: string /* a * / b '' // c */ }",
    ),
    "text that would leave its string": (
        {"const": '"\n\u2028\ud800```\\'},
        '"\\"\\n\\u2028\\ud800\\u0060\\u0060\\u0060\\\\"',
    ),
    "a long description": (
        of({**TEXT, "description": "word " * 500}),
        f"{{\n  p?: string; // {'word ' * 119}word…\n}}",
    ),
}


@pytest.mark.parametrize("name", CORPUS)
def test_a_schema_is_a_type(name: str) -> None:
    """As short as it can be read."""
    schema, expected = CORPUS[name]
    assert type_of(schema) == expected
    *declared, type_ = type_of(schema).split(";\n") if "type " in expected else [expected]
    TypeScript(";\n".join([*declared, f"declare const v: {type_};"])).declarations()


def test_all_types_compile(faults: Any) -> None:
    """The compiler takes them all."""
    texts = [expected for _, expected in CORPUS.values() if not expected.startswith("type ")]
    named = [expected.rpartition("\n") for _, expected in CORPUS.values() if expected.startswith("type ")]
    program = [f"declare const v{place}: {text};" for place, text in enumerate(texts)]
    program += [
        f"namespace N{place} {{ {types}\ndeclare const v: {text}; }}" for place, (types, _, text) in enumerate(named)
    ]
    assert faults("\n".join(program)) == []


def test_the_same_schema_is_the_same_type() -> None:
    """Whatever was read before, and after a way through JSON."""
    for schema, expected in reversed(CORPUS.values()):
        if "inf" not in repr(schema):
            assert type_of(json.loads(json.dumps(schema))) == expected
