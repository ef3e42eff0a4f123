"""JSON Schemas made at random, each with values that are valid under it."""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import quote

from hypothesis import strategies as st

Draw = st.DrawFn
NAMES = st.sampled_from(["a", "b", "content-type", "2fa", "class", "ü", "q'\"`", "a b", "new", "*/"])
TEXTS = st.text(max_size=6) | st.sampled_from(["*/", "```\n", "\u2028", "${x}", "\\"])
NUMBERS = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False, width=32)
SCALARS: st.SearchStrategy[Any] = st.none() | st.booleans() | TEXTS | NUMBERS
JSON: st.SearchStrategy[Any] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=6
)


class Made(NamedTuple):
    """A schema, and where valid values come from."""

    schema: Any
    values: st.SearchStrategy[Any]


@st.composite
def schemas(draw: Draw) -> Made:
    """With `$defs` at its root."""
    defs: dict[str, Any] = {}
    made = _any(draw, defs, draw(st.integers(1, 4)))
    schema = made.schema
    if defs and isinstance(schema, dict):
        schema = {**schema, draw(st.just("$defs")): defs}
    return Made(schema, made.values)


def _any(draw: Draw, defs: dict[str, Any], depth: int) -> Made:
    makers = (
        [_scalar, _enum] if depth == 0 else [_scalar, _enum, _object, _array, _tuple, _either, _all, _named, _circle]
    )
    made: Made = draw(st.sampled_from(makers))(draw, defs, depth - 1)
    if isinstance(made.schema, dict) and draw(st.booleans()):
        made.schema.update(draw(st.fixed_dictionaries({}, optional={"description": TEXTS, "default": JSON})))
    return made


def _scalar(draw: Draw, _: dict[str, Any], __: int) -> Made:
    kinds: list[tuple[str, st.SearchStrategy[Any]]] = [
        ("string", TEXTS),
        ("integer", st.integers(-9, 9)),
        ("number", NUMBERS),
        ("boolean", st.booleans()),
        ("null", st.none()),
    ]
    name, values = draw(st.sampled_from(kinds))
    match draw(st.integers(0, 3)):
        case 0 if name != "null":
            return Made({"type": [name, "null"]}, values | st.none())
        case 1:
            return Made({"type": name, "nullable": True}, values)
    return Made({"type": name}, values)


def _enum(draw: Draw, _: dict[str, Any], __: int) -> Made:
    values = draw(st.lists(JSON, min_size=1, max_size=4))
    if draw(st.booleans()):
        return Made({"const": values[0]}, st.just(values[0]))
    return Made({"enum": values}, st.sampled_from(values))


def _object(draw: Draw, defs: dict[str, Any], depth: int) -> Made:
    made = {name: _any(draw, defs, depth) for name in draw(st.lists(NAMES, unique=True, max_size=3))}
    required = [name for name in made if draw(st.booleans())]
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {name: each.schema for name, each in made.items()},
        "required": required,
    }
    further: st.SearchStrategy[dict[str, Any]] = st.just({})
    match draw(st.integers(0, 4)):
        case 0:
            schema["additionalProperties"] = False
        case 1:
            schema["additionalProperties"] = True
            further = st.dictionaries(st.sampled_from(["x-1", "x-2"]), JSON, max_size=2)
        case 2:
            others = _any(draw, defs, depth)
            schema["additionalProperties"] = others.schema
            further = st.dictionaries(st.sampled_from(["x-1", "x-2"]), others.values, max_size=2)
        case 3:
            others = _any(draw, defs, depth)
            schema |= {"patternProperties": {"^x-": others.schema}, "additionalProperties": False}
            further = st.dictionaries(st.sampled_from(["x-1", "x-2"]), others.values, max_size=2)
    named = st.fixed_dictionaries(
        {name: made[name].values for name in required},
        optional={name: each.values for name, each in made.items() if name not in required},
    )
    return Made(schema, st.builds(lambda one, other: {**one, **other}, named, further))


def _array(draw: Draw, defs: dict[str, Any], depth: int) -> Made:
    item = _any(draw, defs, depth)
    return Made({"type": "array", "items": item.schema}, st.lists(item.values, max_size=2))


def _tuple(draw: Draw, defs: dict[str, Any], depth: int) -> Made:
    places = [_any(draw, defs, depth) for _ in range(draw(st.integers(1, 3)))]
    least = draw(st.integers(0, len(places)))
    schema: dict[str, Any] = {"type": "array", "prefixItems": [each.schema for each in places], "minItems": least}
    rest: st.SearchStrategy[list[Any]] = st.just([])
    match draw(st.integers(0, 2)):
        case 0:
            schema["items"] = False
        case 1:
            further = _any(draw, defs, depth)
            schema["items"] = further.schema
            rest = st.lists(further.values, max_size=2)
    whole = st.builds(lambda one, other: [*one, *other], st.tuples(*(each.values for each in places)), rest)
    few = st.tuples(*(each.values for each in places[:least])).map(list)
    return Made(schema, whole | few)


def _either(draw: Draw, defs: dict[str, Any], depth: int) -> Made:
    members = [_any(draw, defs, depth) for _ in range(draw(st.integers(1, 3)))]
    key = draw(st.sampled_from(["anyOf", "oneOf"]))
    return Made({key: [each.schema for each in members]}, st.one_of(*(each.values for each in members)))


def _all(draw: Draw, defs: dict[str, Any], depth: int) -> Made:
    """Of one schema and what refines it; or of objects with different properties, whichever way they are put."""
    if draw(st.booleans()):
        made = _any(draw, defs, depth)
        return Made({"allOf": [{"minLength": 0}, made.schema, {"description": "again"}, made.schema]}, made.values)
    parts = [_any(draw, defs, depth) for _ in range(2)]
    objects = [
        {"type": "object", "properties": {name: part.schema}, "required": [name]}
        for name, part in zip("xy", parts, strict=True)
    ]
    values = st.fixed_dictionaries({"x": parts[0].values, "y": parts[1].values})
    match draw(st.integers(0, 2)):
        case 0:
            return Made({"allOf": objects}, values)
        case 1:
            return Made({**objects[0], "allOf": objects[1:]}, values)
    return Made({**objects[0], "anyOf": [objects[1], {"type": "null"}]}, values)


def _named(draw: Draw, defs: dict[str, Any], depth: int) -> Made:
    made = _any(draw, defs, depth)
    name = draw(st.sampled_from(["Foo", "string", "Promise", "a/b", "Bar[int]", "1"])) + str(len(defs))
    defs[name] = made.schema
    reference = {"$ref": f"#/$defs/{quote(name.replace('/', '~1'))}"}
    match draw(st.integers(0, 3)):
        case 0:
            pair = {"type": "array", "prefixItems": [reference, dict(reference)], "items": False, "minItems": 2}
            return Made(pair, st.tuples(made.values, made.values).map(list))
        case 1:
            return Made({"anyOf": [reference, {"type": "null"}]}, made.values | st.none())
    return Made(reference, made.values)


def _circle(draw: Draw, defs: dict[str, Any], depth: int) -> Made:
    """A chain of objects, or a tree."""
    made = _any(draw, defs, depth)
    name = f"Node{len(defs)}"
    inner: dict[str, Any] = {"$ref": f"#/$defs/{name}"}
    is_tree = draw(st.booleans())
    defs[name] = {
        "type": "object",
        "properties": {"v": made.schema, "next": {"type": "array", "items": inner} if is_tree else inner},
        "required": ["v"],
    }
    end = st.fixed_dictionaries({"v": made.values})
    longer = st.fixed_dictionaries({"v": made.values, "next": st.lists(end, max_size=2) if is_tree else end})
    return Made(inner, end | longer)
