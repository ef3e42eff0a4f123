"""Names for the types that declarations are written with: one name means one text, for all tools of a session."""

from __future__ import annotations

from typing import Final

from codemode.typescript.printing import Printer

_ROUNDS: Final = 8
# What a type may not be called: keywords, and names that mean something here.
_WORDS: Final = """
any as asserts async await bigint boolean break case catch class const continue debugger declare default
delete do else enum export extends false finally for from function get global if implements import in infer
instanceof interface intrinsic is keyof let module namespace never new null number object of out override
package private protected public readonly require return satisfies set static string super switch symbol this
throw true try type typeof undefined unique unknown using var void while with yield tools Array Promise Record
Object String Number Boolean Symbol Function
"""
_TAKEN: Final = frozenset(_WORDS.split())


class TypeNames:
    """The names that are taken, each with what it means."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def choose(self, printer: Printer, tool_name: str) -> dict[str, str]:
        """Name the types of a printer: as the schema does, or if that is taken, with the tool's name before it.

        Gives their texts by name. Nothing is taken before `take`.
        """
        wanted = printer.names
        names = {each: f"T{name}" if name in _TAKEN else name for each, name in wanted.items()}
        for number in range(_ROUNDS):
            printer.rename(names)
            mine: dict[str, str] = {}
            clashing = []
            for definition, name in names.items():
                text = printer.definition(definition)
                if mine.setdefault(name, text) != text or self._texts.get(name, text) != text:
                    clashing.append(definition)
            if not clashing:
                break
            for place, definition in enumerate(clashing):
                further = f"_{number}_{place}" if number else ""
                names[definition] = f"{tool_name}_{wanted[definition]}{further}"
        return mine

    def take(self, types: dict[str, str]) -> None:
        """From now on these names mean this."""
        self._texts |= types
