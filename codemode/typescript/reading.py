"""Reads a JSON Schema, draft 4 to 2020-12 and OpenAPI's `nullable`, as a type."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from itertools import islice
from typing import Any, Final

from codemode.typescript.literals import literals
from codemode.typescript.meeting import Meeting
from codemode.typescript.notes import notes_of, pattern
from codemode.typescript.references import References
from codemode.typescript.types import (
    BOOLEAN,
    NEVER,
    NULL,
    NUMBER,
    STRING,
    UNKNOWN,
    Array,
    Definition,
    Notes,
    Object,
    Property,
    Ref,
    Tuple,
    Type,
    Union,
    bare_of,
    noted,
    union,
)
from codemode.typescript.work import MOST_DEPTH, Work

_MOST_PARTS: Final = 1_000  # properties, alternatives or places that are looked at
_MOST_NAME: Final = 200  # characters of a property's name
_MOST_PLACES: Final = 32  # of a tuple
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_ALTERNATIVES: Final = ("anyOf", "oneOf")
_OF_OBJECTS: Final = ("properties", "patternProperties", "additionalProperties", "required")
_OF_ARRAYS: Final = ("items", "prefixItems")
_APPLICATORS: Final = (*_REFERENCES, "allOf", *_ALTERNATIVES, "if", "dependentSchemas")
_SIMPLE: Final[dict[str, Type]] = {
    "string": STRING,
    "number": NUMBER,
    "integer": NUMBER,
    "boolean": BOOLEAN,
    "null": NULL,
}


class Reader:
    """Reads the parts of one schema, each once."""

    def __init__(self, root: Any, hint: str, work: Work) -> None:
        self._work = work
        self._references = References(root)
        self._meeting = Meeting(work)
        self._known: dict[int, Type | None] = {}  # by identity; None for one that is being read
        self._definitions: dict[int, Definition] = {}
        self._root, self._hint = root, hint

    def read(self) -> Type:
        """The whole schema, as a reference to it."""
        return self._defined(self._root, self._hint, 0)

    def _of(self, schema: Any, depth: int) -> Type:
        if schema is False:
            return NEVER
        if not isinstance(schema, dict):
            return UNKNOWN
        if id(schema) in self._known:
            return self._known[id(schema)] or UNKNOWN  # a dict that holds itself is no JSON
        if depth > MOST_DEPTH or not self._work.take():
            return UNKNOWN
        self._known[id(schema)] = None
        made = self._whole(schema, depth)
        self._known[id(schema)] = made
        return made

    def _defined(self, schema: Any, hint: str, depth: int) -> Type:
        """A schema that may be referred to."""
        if not isinstance(schema, dict):
            return self._of(schema, depth)
        definition = self._definitions.get(id(schema))
        if definition is None:
            definition = self._definitions[id(schema)] = Definition(hint)
            definition.type = self._of(schema, depth)
        return Ref(definition)

    def _whole(self, schema: dict[str, Any], depth: int) -> Type:
        """All that a schema says, keyword beside keyword."""
        if schema.get("not") is True or schema.get("not") == {}:
            return NEVER
        parts = [self._own(schema, depth)]
        for key in _REFERENCES:
            if isinstance(schema.get(key), str):
                parts.append(self._referred(schema[key], schema, depth))
        parts += [self._of(each, depth + 1) for each in _listed(schema, "allOf")]
        for key in _ALTERNATIVES:
            alternatives = _listed(schema, key)
            if 0 < len(alternatives) <= _MOST_PARTS:
                parts.append(self._one_of([self._of(each, depth + 1) for each in alternatives]))
        met = reduce(lambda one, other: self._meeting.of(one, other, depth), parts)
        met = self._with_conditions(met, schema, depth)
        if schema.get("nullable") is True:
            met = union([met, NULL])
        return noted(met, notes_of(schema, is_tuple=isinstance(bare_of(met)[0], Tuple)))

    def _one_of(self, types: list[Type]) -> Type:
        made = union(types)
        bare = bare_of(made)[0]
        return made if not isinstance(bare, Union) or self._work.take(len(bare.members)) else UNKNOWN

    def _referred(self, reference: str, place: dict[str, Any], depth: int) -> Type:
        target = self._references.target(reference, place)
        if target is self._root:
            return self._defined(target, self._hint, depth + 1)
        return self._defined(target, reference.rpartition("/")[2].rpartition("#")[2], depth + 1)

    def _own(self, schema: dict[str, Any], depth: int) -> Type:
        """What the schema says itself: values, types, and what belongs to these."""
        types = [each for each in _types(schema) if each in _SIMPLE or each in ("object", "array")]
        own = union([self._typed(each, schema, depth) for each in types]) if types else UNKNOWN
        for values in (schema.get("enum"), [schema["const"]] if "const" in schema else None):
            if isinstance(values, list) and values:
                own = self._meeting.of(literals(values), own, depth)
        return own

    def _typed(self, name: str, schema: dict[str, Any], depth: int) -> Type:
        if name == "object":
            return self._object(schema, depth)
        return self._array(schema, depth) if name == "array" else _SIMPLE[name]

    def _object(self, schema: dict[str, Any], depth: int) -> Object:
        said = schema.get("additionalProperties", schema.get("unevaluatedProperties"))
        if "additionalProperties" not in schema and said and any(key in schema for key in _APPLICATORS):
            said = True  # who knows which are evaluated
        patterns = _mapped(schema, "patternProperties")
        kinds = [self._of(each, depth + 1) for _, each in patterns]
        if said is True or isinstance(said, dict):
            kinds.append(self._of(said, depth + 1))
        others, notes = bare_of(union(kinds)) if kinds else (None, Notes())
        if patterns:
            notes = Notes(notes.description, (" or ".join(pattern(source) for source, _ in patterns[:3]), *notes.facts))
        named = schema.get("properties")
        left_out = len(named) - len(_mapped(schema, "properties")) if isinstance(named, dict) else 0
        if left_out:
            others, notes = UNKNOWN, Notes(facts=(f"{left_out} more",))
        properties = tuple(self._properties(schema, UNKNOWN if others is None else others, depth))
        return Object(properties, others, notes, said is False and not patterns)

    def _properties(self, schema: dict[str, Any], others: Type, depth: int) -> Iterator[Property]:
        required = dict.fromkeys(
            each for each in _listed(schema, "required") if isinstance(each, str) and len(each) <= _MOST_NAME
        )
        for name, each in _mapped(schema, "properties"):
            type_, notes = bare_of(self._of(each, depth + 1))
            yield Property(name, type_, name in required, notes)
            required.pop(name, None)
        for name in required:
            yield Property(name, others, True)

    def _array(self, schema: dict[str, Any], depth: int) -> Type:
        places, rest = schema.get("prefixItems"), schema.get("items")
        if isinstance(rest, list):  # before 2020-12
            places, rest = rest, schema.get("additionalItems")
        if not isinstance(places, list) or not places:
            item, notes = bare_of(self._of(rest, depth + 1))
            facts = tuple(f"each {fact}" for fact in (notes.description, *notes.facts) if fact)
            return noted(Tuple((), 0, None) if item is NEVER else Array(item), Notes(facts=facts))
        if len(places) > _MOST_PLACES:
            return Array(UNKNOWN)
        least, most = schema.get("minItems"), schema.get("maxItems")
        is_closed = rest is False or (isinstance(most, int) and most <= len(places))
        items = [self._of(each, depth + 1) for each in places]
        kept = items[: max(most, 0)] if isinstance(most, int) else items
        required = min(max(least, 0), len(kept)) if isinstance(least, int) else 0
        return Tuple(tuple(kept), required, None if is_closed else bare_of(self._of(rest, depth + 1))[0])

    def _with_conditions(self, met: Type, schema: dict[str, Any], depth: int) -> Type:
        """With the properties that only conditions name, none of which need be there."""
        branches = [schema[key] for key in ("then", "else") if key in schema and "if" in schema]
        branches += [each for _, each in _mapped(schema, "dependentSchemas")]
        bare, notes = bare_of(met)
        if not branches or not isinstance(bare, Object):
            return met
        known = {each.name for each in bare.properties}
        further: dict[str, Property] = {}
        for branch in branches:
            found = bare_of(self._of(branch, depth + 1))[0]
            for each in found.properties if isinstance(found, Object) else ():
                had = further.get(each.name)
                type_ = each.type if had is None else union([had.type, each.type])
                further[each.name] = Property(each.name, bare_of(type_)[0], False, each.notes)
        added = tuple(each for name, each in further.items() if name not in known)
        return noted(Object(bare.properties + added, bare.others, bare.others_notes, bare.closed), notes)


def _types(schema: dict[str, Any]) -> list[str]:
    """The types that a schema names; without any, those that its keywords speak of."""
    said = schema.get("type")
    if isinstance(said, str):
        return [said]
    if isinstance(said, list):
        return [each for each in said if isinstance(each, str)]
    found = ["object"] if any(key in schema for key in _OF_OBJECTS) else []
    return [*found, "array"] if any(key in schema for key in _OF_ARRAYS) else found


def _listed(schema: dict[str, Any], key: str) -> list[Any]:
    value = schema.get(key)
    return value[: _MOST_PARTS + 1] if isinstance(value, list) else []


def _mapped(schema: dict[str, Any], key: str) -> list[tuple[str, Any]]:
    value = schema.get(key)
    if not isinstance(value, dict):
        return []
    first = islice(value.items(), _MOST_PARTS)
    return [each for each in first if isinstance(each[0], str) and len(each[0]) <= _MOST_NAME]
