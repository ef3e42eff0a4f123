"""Writes types as text: on one line where there is room, else a line for each property."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from codemode.typescript.graph import Graph
from codemode.typescript.text import block, property_name, type_name
from codemode.typescript.types import (
    UNKNOWN,
    Array,
    Both,
    Definition,
    Literal,
    Noted,
    Notes,
    Object,
    Plain,
    Property,
    Ref,
    Tuple,
    Type,
    Union,
    bare_of,
)
from codemode.typescript.work import MOST_DEPTH

_WIDTH: Final = 96  # characters of what is written on one line
_SMALL: Final = 60  # of a definition that is written out wherever it is used
_MOST_TEXT: Final = 24_000  # of types that belong together
_LONGEST: Final = 2_000  # of literals side by side, which have no better place than one line
_INDENT: Final = "  "


class Printer:
    """Writes types that belong together. What a reference leads to stands in its place if it is short or used once.

    What has been written fills up what may be written: at the end of that everything is `unknown`.
    """

    def __init__(self, *roots: Type) -> None:
        graph = Graph(roots)
        self._endless = graph.endless
        self._lines: dict[int, str | None] = {}  # by identity of the type; None for what does not fit on a line
        self._left = _MOST_TEXT
        named = [each for each in graph.definitions if each in graph.recursive and each not in graph.endless]
        self._names = {each: type_name(each.hint) for each in named}
        for each in graph.definitions:  # inner ones first, so that their names count in what is around them
            if each not in self._names and each not in graph.endless and graph.uses[each] > 1:
                line = self._line(each.type or UNKNOWN, 0)
                if line is None or len(line) > _SMALL:
                    self._names[each] = type_name(each.hint)

    @property
    def names(self) -> dict[Definition, str]:
        """The definitions that are written on their own, with the names that they would like to have."""
        return dict(self._names)

    def rename(self, names: Mapping[Definition, str]) -> None:
        """Begin anew, with these names for the definitions."""
        self._names = dict(names)
        self._lines.clear()
        self._left = _MOST_TEXT

    def definition(self, definition: Definition) -> str:
        """The text of one that has a name."""
        return self.text(definition.type or UNKNOWN)

    def text(self, type_: Type, indent: str = "", depth: int = 0) -> str:
        """A type, the lines after its first one indented."""
        type_ = self.resolved(type_)
        line = self._line(type_, 0)
        if line is not None:
            return self._count(line)
        if depth > MOST_DEPTH or self._left <= 0:
            return UNKNOWN.text
        match type_:
            case Noted():
                return f"{self._operand(type_.type, indent, depth)} {self._count(block(type_.notes.text))}"
            case Object():
                return "\n".join(["{", *self._members(type_, indent + _INDENT, depth), f"{indent}}}"])
            case Array():
                return f"{self._operand(type_.item, indent, depth)}[]"
            case Tuple():
                items = [self._operand(each, indent, depth) for each in type_.items]
                return _tuple(items, type_, None if type_.rest is None else self._operand(type_.rest, indent, depth))
            case Union():
                return _joined(" | ", self._operands(type_.members, indent, depth))
            case Both():
                return _joined(" & ", self._operands(type_.parts, indent, depth))
        return UNKNOWN.text  # a Plain, a Literal or a name that is longer than a line

    def _operand(self, type_: Type, indent: str, depth: int) -> str:
        return self._in_parentheses(type_, self.text(type_, indent, depth + 1))

    def _operands(self, types: Iterable[Type], indent: str, depth: int) -> Iterator[str]:
        for each in types:
            yield self._operand(each, indent, depth) if self._left > 0 else UNKNOWN.text

    def _in_parentheses(self, type_: Type, text: str) -> str:
        needs = isinstance(self.resolved(type_), Union | Both) and (" | " in text or " & " in text)
        return f"({text})" if needs else text

    def _members(self, type_: Object, indent: str, depth: int) -> Iterator[str]:
        for name, value, notes in self._named_members(type_):
            if self._left <= 0:
                yield f"{indent}[key: string]: unknown;"
                return
            yield from self._member(name, value, notes, indent, depth)

    def _member(self, name: str, value: Type, notes: Notes, indent: str, depth: int) -> Iterator[str]:
        """Its lines: the comment behind it, or before what takes several."""
        said = self._count(f" // {notes.text}" if notes.text else "")
        written = f"{self._count(indent + name)}: {self.text(value, indent, depth + 1)};"
        if said and "\n" in written:
            yield f"{indent}{said.lstrip()}"
            said = ""
        yield written + said

    def _property(self, each: Property) -> tuple[str, Type, Notes]:
        """Name, type and notes; those of what its reference leads to, if that stands here."""
        value, notes = bare_of(self.resolved(each.type))
        return f"{property_name(each.name)}{'' if each.is_required else '?'}", value, each.notes.beside(notes)

    def _others(self, type_: Object) -> tuple[Type, Notes]:
        """An index has to fit the properties beside it: a type that might not is a comment."""
        value, notes = bare_of(self.resolved(type_.others or UNKNOWN))
        line = self._line(value, 0)
        if value is UNKNOWN or all(
            each.is_required and line is not None and self._line(bare_of(each.type)[0], 0) == line
            for each in type_.properties
        ):
            return value, type_.others_notes.beside(notes)
        fact = (line,) if line is not None and "/*" not in line else ()
        return UNKNOWN, Notes(facts=fact).beside(type_.others_notes)

    def resolved(self, type_: Type) -> Type:
        """What stands in the place of a reference, unless that is a name."""
        while isinstance(type_, Ref) and type_.definition not in self._names:
            type_ = UNKNOWN if type_.definition in self._endless else type_.definition.type or UNKNOWN
        return type_

    def _count(self, text: str) -> str:
        self._left -= len(text)
        return text

    def _line(self, type_: Type, depth: int) -> str | None:
        """A type on one line, None if it does not fit."""
        type_ = self.resolved(type_)
        if isinstance(type_, Ref):
            return self._names[type_.definition]
        if id(type_) not in self._lines:
            if depth > MOST_DEPTH:
                return None
            self._lines[id(type_)] = self._written(type_, depth + 1)
        return self._lines[id(type_)]

    def _written(self, type_: Type, depth: int) -> str | None:
        line: str | None = None
        match type_:
            case Noted():
                inner = self._line_operand(type_.type, depth)
                line = inner and f"{inner} {block(type_.notes.text)}"
            case Array():
                inner = self._line_operand(type_.item, depth)
                line = inner and f"{inner}[]"
            case Tuple():
                items = self._all(type_.items, depth)
                rest = self._line_operand(type_.rest, depth) if type_.rest is not None else ""
                line = None if items is None or rest is None else _tuple(items, type_, rest)
            case Union() | Both():
                items = self._all(type_.members if isinstance(type_, Union) else type_.parts, depth)
                line = None if items is None else _joined(" | " if isinstance(type_, Union) else " & ", items)
                if isinstance(type_, Union) and all(isinstance(each, Literal | Plain) for each in type_.members):
                    return line  # there is no better way to write it on several lines
            case Object():
                line = self._object_line(type_, depth)
            case Plain() | Literal():
                return type_.text
        return line if line is None or len(line) <= _WIDTH else None

    def _line_operand(self, type_: Type, depth: int) -> str | None:
        line = self._line(type_, depth)
        return None if line is None else self._in_parentheses(type_, line)

    def _all(self, types: Iterable[Type], depth: int) -> list[str] | None:
        lines: list[str] = []
        left = _LONGEST
        for each in types:
            line = self._line_operand(each, depth) if left > 0 else None
            if line is None:
                return None
            lines.append(line)
            left -= len(line)
        return lines

    def _object_line(self, type_: Object, depth: int) -> str | None:
        if type_.is_any and not type_.others_notes.text:
            return "object"
        members: list[str] = []
        length = 0
        for name, value, notes in self._named_members(type_):
            line = self._line(value, depth)
            if line is None or length > _WIDTH:
                return None
            members.append(f"{name}: {line}{f' {block(notes.text)}' if notes.text else ''}")
            length += len(members[-1])
        return f"{{ {'; '.join(members)} }}" if members else "{}"

    def _named_members(self, type_: Object) -> Iterator[tuple[str, Type, Notes]]:
        yield from map(self._property, type_.properties)
        if type_.others is not None:
            yield ("[key: string]", *self._others(type_))


def _joined(mark: str, operands: Iterable[str]) -> str:
    """A union or an intersection; one of several that is unknown says all of the one and nothing of the other."""
    texts = list(dict.fromkeys(operands))
    if UNKNOWN.text in texts:
        texts = [UNKNOWN.text] if mark == " | " else [each for each in texts if each != UNKNOWN.text] or texts
    return mark.join(texts)


def _tuple(items: list[str], type_: Tuple, rest: str | None) -> str:
    places = [item if place < type_.required else f"{item}?" for place, item in enumerate(items)]
    return f"[{', '.join([*places, f'...{rest}[]'] if rest else places)}]"
