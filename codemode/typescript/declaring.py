"""The declaration of one tool, as a model reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from codemode.typescript.naming import TypeNames
from codemode.typescript.printing import Printer
from codemode.typescript.reading import Reader
from codemode.typescript.text import comment_lines
from codemode.typescript.types import Object, Ref, Type, bare_of
from codemode.typescript.work import MOST_DEPTH, Work

MOST_DESCRIPTION: Final = 4_000  # characters
_BYTES_PER_WORK: Final = 8  # that are written


def type_of(schema: Any) -> str:
    """A JSON Schema as a TypeScript type, on the last lines; those that it needs names for are declared before it.

    Never fails, whatever the schema is; what cannot be read or would take too much work is `unknown`.
    """
    root = Reader(schema, "Root", Work()).read()
    printer = Printer(root)
    types = TypeNames().choose(printer, "T")
    return "\n".join([*map(_declared, types.items()), printer.text(root)])


@dataclass(frozen=True, slots=True)
class Signature:
    """A tool's name and description, and its types; without an input schema it takes any object."""

    name: str
    description: str
    is_freeform: bool
    input_schema: Any
    output_schema: Any


@dataclass(frozen=True, slots=True)
class Declaration:
    """`member` is a method of `tools`, `types` are those that it needs, by name."""

    member: str
    types: dict[str, str]

    def __len__(self) -> int:
        """Bytes of it within a block."""
        return len(block_of([self]).encode())


def declaration(tool: Signature, names: TypeNames, work: Work) -> Declaration:
    """What a model has to know to call a tool. `names` are those of the declarations beside it."""
    returned = Reader(tool.output_schema, "Result", work).read()
    if tool.is_freeform:
        printer = Printer(returned)
        types = names.choose(printer, tool.name)
        taken = "input: string"
    else:
        given = Reader({"type": "object"} if tool.input_schema is None else tool.input_schema, "Args", work).read()
        printer = Printer(given, returned)
        types = names.choose(printer, tool.name)
        bare = bare_of(printer.resolved(given))[0]  # what is said of all arguments together is said of the tool
        taken = f"args{'?' if _may_be_left_out(bare) else ''}: {printer.text(bare)}"
    lines = [f"// {line}" for line in comment_lines(tool.description, MOST_DESCRIPTION)]
    lines.append(f"{tool.name}({taken}): Promise<{printer.text(returned)}>;")
    made = Declaration("\n".join(lines), types)
    work.take(len(made) // _BYTES_PER_WORK)
    return made


def block_of(declarations: list[Declaration]) -> str:
    """Declarations as TypeScript, for a fenced block."""
    types = {name: text for declared in declarations for name, text in declared.types.items()}
    return "\n".join(
        [*map(_declared, types.items()), "declare const tools: {", *(each.member for each in declarations), "};"]
    )


def _declared(named: tuple[str, str]) -> str:
    return f"type {named[0]} = {named[1]};"


def _may_be_left_out(given: Type) -> bool:
    """Whether `{}` will do, which is what a tool gets when nothing is given."""
    for _ in range(MOST_DEPTH):
        if not isinstance(given, Ref) or given.definition.type is None:
            break
        given = bare_of(given.definition.type)[0]
    return isinstance(given, Object) and not any(each.is_required for each in given.properties)
