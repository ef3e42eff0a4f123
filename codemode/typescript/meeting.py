"""Where two types meet: the type of the values that are of both."""

from __future__ import annotations

from typing import Final

from codemode.typescript.types import (
    NEVER,
    UNKNOWN,
    Array,
    Both,
    Literal,
    Object,
    Plain,
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

_MOST_PAIRS: Final = 2_000  # of members of two unions


class Meeting:
    """Meets types, each pair once. Where that makes too much work, the answer is one of the two, which holds too."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._known: dict[tuple[int, int], tuple[Type, Type, Type]] = {}  # the pair too, so that no id is used again

    def of(self, one: Type, other: Type, depth: int = 0) -> Type:
        """The type of what is of both types, with the notes of both."""
        first, notes = bare_of(one)
        second, further = bare_of(other)
        return noted(self._bare(first, second, depth), notes.beside(further))

    def _bare(self, one: Type, other: Type, depth: int) -> Type:
        if one is other or other is UNKNOWN or one is NEVER:
            return one
        if one is UNKNOWN or other is NEVER:
            return other
        if (id(one), id(other)) in self._known:
            return self._known[id(one), id(other)][2]
        if depth > MOST_DEPTH or not self._work.take():
            return one
        met = self._members(one, other, depth)
        self._known[id(one), id(other)] = (one, other, met)
        return met

    def _members(self, one: Type, other: Type, depth: int) -> Type:
        first, second = self._alternatives(one), self._alternatives(other)
        if any(bare_of(each)[0] is UNKNOWN for each in second):
            return one
        if any(bare_of(each)[0] is UNKNOWN for each in first):
            return other
        if len(first) * len(second) > _MOST_PAIRS or not self._work.take(len(first) * len(second)):
            return one
        if any(isinstance(bare_of(each)[0], Ref) for each in first + second):  # one that is being read: anything
            return _both(one, other)
        objects = [[each for each in side if _is_object(each)] for side in (first, second)]
        values = [[each for each in side if not _is_object(each)] for side in (first, second)]
        found = [self._simple(one, other, depth) for one in values[0] for other in values[1]]
        if objects[0] and objects[1]:
            found.append(self._objects(objects[0], objects[1], depth))
        return union(found)

    def _alternatives(self, type_: Type) -> list[Type]:
        """The members of a union, those of its references among them; unknown if that would be too much work."""
        left, seen = [type_], set()
        found: list[Type] = []
        while left:
            each = left.pop()
            bare = bare_of(each)[0]
            if not self._work.take():
                return [UNKNOWN]
            if id(bare) in seen:
                continue
            seen.add(id(bare))
            if isinstance(bare, Union):
                left += reversed(bare.members)
            elif isinstance(bare, Ref) and bare.definition.type is not None:
                left.append(bare.definition.type)
            else:
                found.append(each)
        return found or [UNKNOWN]  # nothing but references to each other

    def _simple(self, one: Type, other: Type, depth: int) -> Type:
        first, notes = bare_of(one)
        second, further = bare_of(other)
        return noted(self._values(first, second, depth), notes.beside(further))

    def _values(self, one: Type, other: Type, depth: int) -> Type:
        match one, other:
            case _, Plain(text="unknown"):
                return one
            case Plain(text="unknown"), _:
                return other
            case Plain(), Plain():
                return one if one.text == other.text else NEVER
            case Literal(), Literal():
                return one if one.text == other.text else NEVER
            case Literal(), Plain():
                return one if one.kind == other.text else NEVER
            case Plain(), Literal():
                return other if other.kind == one.text else NEVER
            case Array(), Array():
                return Array(self.of(one.item, other.item, depth + 1))
            case Tuple(), Array():
                return self._tuple(one, other, depth)
            case Array(), Tuple():
                return self._tuple(other, one, depth)
            case Tuple(), Tuple():
                return one
        return NEVER

    def _tuple(self, places: Tuple, array: Array, depth: int) -> Type:
        items = tuple(self.of(item, array.item, depth + 1) for item in places.items)
        rest = None if places.rest is None else self.of(places.rest, array.item, depth + 1)
        return Tuple(items, places.required, rest)

    def _objects(self, first: list[Type], second: list[Type], depth: int) -> Type:
        one, other = bare_of(first[0])[0], bare_of(second[0])[0]
        if len(first) == 1 and isinstance(one, Object) and one.is_any:
            return union(second)
        if len(second) == 1 and isinstance(other, Object) and other.is_any:
            return union(first)
        if len(first) == len(second) == 1 and isinstance(one, Object) and isinstance(other, Object):
            notes = bare_of(first[0])[1].beside(bare_of(second[0])[1])
            return noted(self._merged(one, other, depth), notes)
        return _both(union(first), union(second))

    def _merged(self, one: Object, other: Object, depth: int) -> Object:
        """What one has, then what only the other has; what one names, the other's `others` speaks of, if it does."""
        left = {each.name: each for each in other.properties}
        merged = [self._property(each, left.pop(each.name, None), other, depth) for each in one.properties]
        merged += [self._property(each, None, one, depth) for each in left.values()]
        others = one.others if other.others is None else other.others
        if one.others is not None and other.others is not None:
            others = self.of(one.others, other.others, depth + 1)
        notes = one.others_notes.beside(other.others_notes)
        return Object(tuple(merged), others, notes, one.closed or other.closed)

    def _property(self, mine: Property, theirs: Property | None, beside: Object, depth: int) -> Property:
        if not self._work.take():
            return mine
        other = beside.others if theirs is None else theirs.type
        bare, notes = bare_of(mine.type if other is None else self.of(mine.type, other, depth + 1))
        said = mine.notes.beside(notes) if theirs is None else mine.notes.beside(theirs.notes).beside(notes)
        return Property(mine.name, bare, mine.is_required or (theirs is not None and theirs.is_required), said)


def _is_object(type_: Type) -> bool:
    return isinstance(bare_of(type_)[0], Object | Both)


def _both(one: Type, other: Type) -> Type:
    """Side by side, in one list."""
    parts: list[Type] = []
    for each in (one, other):
        bare = bare_of(each)[0]
        parts += bare.parts if isinstance(bare, Both) else (bare,)
    return Both(tuple(dict.fromkeys(parts)))
