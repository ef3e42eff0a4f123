"""TypeScript types as a tree, compared by identity: the same part of a schema is the same type."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple


class Notes(NamedTuple):
    """What a comment says of a type: a description, and facts such as a format or a range."""

    description: str = ""
    facts: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """All of it: `Where to look (uri, default "/")`."""
        facts = ", ".join(self.facts)
        return f"{self.description} ({facts})" if self.description and facts else self.description or facts

    def beside(self, other: Notes) -> Notes:
        """Both; of two descriptions this one."""
        further = tuple(fact for fact in other.facts if fact not in self.facts)
        return Notes(self.description or other.description, self.facts + further)


NO_NOTES: Final = Notes()


@dataclass(frozen=True, slots=True, eq=False)
class Plain:
    """`string`, `number`, `boolean`, `null`, `unknown` or `never`."""

    text: str


@dataclass(frozen=True, slots=True, eq=False)
class Literal:
    """A string, number or boolean written out; `kind` is the name of the Plain type that it belongs to."""

    text: str
    kind: str


@dataclass(frozen=True, slots=True, eq=False)
class Union:
    """One of several; made by `union`."""

    members: tuple[Type, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Both:
    """All of several object types, where they cannot be merged into one."""

    parts: tuple[Type, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Array:
    """Any number of one type."""

    item: Type


@dataclass(frozen=True, slots=True, eq=False)
class Tuple:
    """Items by place, the first `required` of them there; `rest` is the type of further ones, if there may be any."""

    items: tuple[Type, ...]
    required: int
    rest: Type | None


@dataclass(frozen=True, slots=True, eq=False)
class Property:
    """A property of an object."""

    name: str
    type: Type
    is_required: bool
    notes: Notes = NO_NOTES


@dataclass(frozen=True, slots=True, eq=False)
class Object:
    """Properties by name, and the type of all others, if the schema speaks of others; `closed` says there are none."""

    properties: tuple[Property, ...]
    others: Type | None = None
    others_notes: Notes = NO_NOTES
    closed: bool = False

    @property
    def is_any(self) -> bool:
        """Whether it is any object at all."""
        return not self.properties and not self.closed and (self.others is None or self.others is UNKNOWN)


@dataclass(frozen=True, slots=True, eq=False)
class Noted:
    """A type with a comment."""

    type: Type
    notes: Notes


@dataclass(slots=True, eq=False)
class Definition:
    """What a reference leads to. `type` is None for as long as it is being read."""

    hint: str  # for a name
    type: Type | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Ref:
    """A reference to a definition, which may lead back to where it stands."""

    definition: Definition = field(repr=False)


Type = Plain | Literal | Union | Both | Array | Tuple | Object | Noted | Ref

STRING: Final = Plain("string")
NUMBER: Final = Plain("number")
BOOLEAN: Final = Plain("boolean")
NULL: Final = Plain("null")
UNKNOWN: Final = Plain("unknown")
NEVER: Final = Plain("never")
TRUE: Final = Literal("true", "boolean")
FALSE: Final = Literal("false", "boolean")


def noted(type_: Type, notes: Notes) -> Type:
    """The type with these notes before those that it has."""
    bare, had = bare_of(type_)
    said = notes.beside(had)
    return Noted(bare, said) if said != NO_NOTES else bare


def bare_of(type_: Type) -> tuple[Type, Notes]:
    """The type without its notes, and these."""
    return (type_.type, type_.notes) if isinstance(type_, Noted) else (type_, NO_NOTES)


def union(types: Iterable[Type]) -> Type:
    """One of them: flat, none twice. The notes of the only one besides null are those of the union."""
    members: dict[int | str, Type] = {}
    for each in types:
        bare, notes = bare_of(each)
        if bare is UNKNOWN:
            return each
        for member in bare.members if isinstance(bare, Union) else (bare,):
            key = member.text if isinstance(member, Plain | Literal) else id(member)
            members.setdefault(key, noted(member, notes))
    members.pop(NEVER.text, None)
    if TRUE.text in members and FALSE.text in members:
        del members[FALSE.text]
        members[TRUE.text] = BOOLEAN
    found = list(members.values())
    if len(found) < 2:
        return found[0] if found else NEVER
    values = [each for each in found if bare_of(each)[0] is not NULL]
    if len(values) == 1:
        bare, notes = bare_of(values[0])
        return noted(Union(tuple(bare if each is values[0] else bare_of(each)[0] for each in found)), notes)
    return Union(tuple(found))
