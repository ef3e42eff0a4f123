"""How the definitions behind a type refer to each other: which need a name, and which lead nowhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from codemode.typescript.types import Array, Both, Definition, Noted, Object, Ref, Tuple, Type, Union

T = TypeVar("T")


class Graph:
    """The definitions that some types lead to, each after those that it refers to, but for circles."""

    def __init__(self, roots: Iterable[Type]) -> None:
        self.uses: dict[Definition, int] = {}
        self._inner: dict[Definition, list[Ref]] = {}
        self.definitions: list[Definition] = []
        self._seen: set[int] = set()
        first = [ref for root in roots for ref in self._refs(root)]
        for ref in first:
            self.uses[ref.definition] = self.uses.get(ref.definition, 0) + 1
        returning = _walk([ref.definition for ref in first], self._enter, self.definitions.append)
        self.recursive = {definition for _, definition in returning}
        self.endless = self._endless()

    def _enter(self, definition: Definition) -> list[Definition]:
        inner = self._refs(definition.type) if definition.type is not None else []
        self._inner[definition] = inner
        for ref in inner:
            self.uses[ref.definition] = self.uses.get(ref.definition, 0) + 1
        return [ref.definition for ref in inner]

    def _refs(self, root: Type) -> list[Ref]:
        """The references in a type, but for what was seen before."""
        left, found = [root], []
        while left:
            each = left.pop()
            if id(each) in self._seen:
                continue
            self._seen.add(id(each))
            if isinstance(each, Ref):
                found.append(each)
            else:
                left += reversed(list(_parts(each)))
        return found

    def _endless(self) -> set[Definition]:
        """Those that are themselves, or one of several of which one is themselves: TypeScript refuses such a type."""
        outer = {each: [ref.definition for ref in _outermost(each.type)] for each in self.definitions}
        returning = _walk(self.definitions, lambda each: outer[each], lambda _: None)
        return {definition for _, definition in returning}


def _parts(type_: Type) -> Iterator[Type]:
    match type_:
        case Array():
            yield type_.item
        case Tuple():
            yield from type_.items
            if type_.rest is not None:
                yield type_.rest
        case Object():
            yield from (each.type for each in type_.properties)
            if type_.others is not None:
                yield type_.others
        case _:
            yield from _beside(type_)


def _beside(type_: Type) -> Iterable[Type]:
    match type_:
        case Union():
            return type_.members
        case Both():
            return type_.parts
        case Noted():
            return (type_.type,)
    return ()


def _outermost(type_: Type | None) -> list[Ref]:
    """The references that a type is made of, without an object or array around them."""
    left, found = [] if type_ is None else [type_], []
    while left:
        each = left.pop()
        if isinstance(each, Ref):
            found.append(each)
        left += reversed(list(_beside(each)))
    return found


def _walk(roots: Iterable[T], inner: Callable[[T], Iterable[T]], leave: Callable[[T], object]) -> list[tuple[T, T]]:
    """Depth first; the edges that lead back to where the walk is."""
    returning: list[tuple[T, T]] = []
    entered: set[T] = set()
    for root in roots:
        if root in entered:
            continue
        entered.add(root)
        path = {root: iter(inner(root))}
        while path:
            here, left = next(reversed(path.items()))
            following = next(left, None)
            if following is None:
                del path[here]
                leave(here)
            elif following in path:
                returning.append((here, following))
            elif following not in entered:
                entered.add(following)
                path[following] = iter(inner(following))
    return returning
