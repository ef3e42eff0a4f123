"""Just enough TypeScript to tell whether declarations are well formed."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NoReturn

from .differences import brief


def typescript_in(description: str) -> str:
    """The TypeScript of a description: its ```ts blocks, or without any the statements that start a line."""
    blocks = re.findall(r"^[ \t]*```(?:ts|typescript)[ \t]*\n(.*?)^[ \t]*```", description, re.MULTILINE | re.DOTALL)
    if blocks:
        return "\n".join(blocks)
    found = []
    for start in re.finditer(r"^(?:export |declare |type \w+ *=|interface \w)", description, re.MULTILINE):
        lines: list[str] = []
        for line in description[start.start() :].splitlines():
            lines.append(line)
            text = "\n".join(lines)
            if line.rstrip().endswith((";", "}")) and all(text.count(a) <= text.count(b) for a, b in ("{}", "()", "[]")):
                break
        found.append("\n".join(lines))
    if not found:
        raise SyntaxError("there are no declarations in the description")
    return "\n".join(found)


class TypeScript:
    """A recognizer for ambient declarations and types. Raises SyntaxError where the text is none."""

    TOKEN = re.compile(
        r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)|(?P<name>[^\W\d][\w$]*|\$[\w$]*)|(?P<number>\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?n?)"""
        r"""|(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`[^`$]*`)|(?P<mark>=>|\.\.\.|[{}()\[\]<>|&:;,?=.*+-])""",
        re.DOTALL,
    )

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.tokens: list[tuple[str | None, str, int, bool]] = []  # kind, text, position, first of its line
        self.declared: set[str] = set()
        position, new_line = 0, False
        while position < len(text):
            match = self.TOKEN.match(text, position)
            if match is None:
                raise SyntaxError(f"at {brief(text[position : position + 40])}")
            position = match.end()
            if match.lastgroup == "space":
                new_line |= "\n" in match[0]
            else:
                self.tokens.append((match.lastgroup, match[0], match.start(), new_line))
                new_line = False
        self.tokens.append(("end", "", len(text), True))

    def fail(self) -> NoReturn:
        raise SyntaxError(f"at {brief(self.text[max(0, self.tokens[self.at][2] - 30) : self.tokens[self.at][2] + 30])}")

    def peek(self, ahead: int = 0) -> str:
        kind, text, *_ = self.tokens[min(self.at + ahead, len(self.tokens) - 1)]
        return text if kind in ("name", "mark") else str(kind)

    @property
    def kind(self) -> str | None:
        return self.tokens[self.at][0]

    def take(self, *texts: str) -> bool:
        if self.peek() in texts and self.kind != "end":
            self.at += 1
            return True
        return False

    def need(self, text: str) -> None:
        if not self.take(text):
            self.fail()

    def name(self) -> None:
        if self.kind != "name":
            self.fail()
        self.at += 1

    def declarations(self) -> set[str]:
        """The names that are declared."""
        while self.kind != "end":
            self.declaration()
        return self.declared

    def declaration(self) -> None:
        while self.take("export", "declare"):
            pass
        self.declared.add(self.tokens[min(self.at + 1, len(self.tokens) - 1)][1])
        if self.take(";"):
            return
        if self.take("type"):
            self.name()
            self.generics()
            self.need("=")
            self.type()
            self.end_of_statement()
        elif self.take("interface"):
            self.name()
            self.generics()
            if self.take("extends"):
                self.many(self.type)
            self.need("{")
            self.members()
        elif self.take("const", "let", "var"):
            self.name()
            self.need(":")
            self.type()
            self.end_of_statement()
        elif self.take("function"):
            self.name()
            self.signature()
            self.end_of_statement()
        elif self.take("namespace", "module"):
            self.name()
            while self.take("."):
                self.name()
            self.need("{")
            while not self.take("}"):
                self.declaration()
        else:
            self.fail()

    def end_of_statement(self) -> None:
        if not self.take(";") and self.peek() != "}" and not self.tokens[self.at][3]:
            self.fail()

    def many(self, one: Callable[[], None]) -> None:
        one()
        while self.take(","):
            one()

    def generics(self) -> None:
        if self.take("<"):
            self.many(self.generic)
            self.need(">")

    def generic(self) -> None:
        self.name()
        if self.take("extends"):
            self.type()
        if self.take("="):
            self.type()

    def signature(self) -> None:
        self.generics()
        self.need("(")
        while not self.take(")"):
            self.take("...")
            self.name()
            self.take("?")
            if self.take(":"):
                self.type()
            if self.peek() != ")":
                self.need(",")
        if self.take(":"):
            self.type()

    def type(self) -> None:
        if self.peek() == "<" or (self.peek() == "(" and self.is_function()):
            self.generics()
            self.signature()
            self.need("=>")
            self.type()
            return
        self.take("|")
        self.intersection()
        while self.take("|"):
            self.intersection()

    def is_function(self) -> bool:
        depth, ahead = 0, 0
        while (mark := self.peek(ahead)) != "end":
            depth += (mark in ("(", "[", "{")) - (mark in (")", "]", "}"))
            ahead += 1
            if depth == 0:
                return self.peek(ahead) == "=>"
        return False

    def intersection(self) -> None:
        self.take("&")
        self.unary()
        while self.take("&"):
            self.unary()

    def unary(self) -> None:
        if self.peek() in ("keyof", "readonly", "typeof") and self.peek(1) not in (";", ",", "|", "}", ")", "]", ">", "end"):
            self.at += 1
            self.unary()
            return
        self.primary()
        while self.peek() == "[" and not self.tokens[self.at][3]:
            self.at += 1
            if self.peek() != "]":
                self.type()
            self.need("]")

    def primary(self) -> None:
        if self.take("("):
            self.type()
            self.need(")")
        elif self.take("{"):
            self.members()
        elif self.take("["):
            while not self.take("]"):
                self.take("...")
                if self.kind == "name" and (self.peek(1) == ":" or (self.peek(1) == "?" and self.peek(2) == ":")):
                    self.at += 1
                    self.take("?")
                    self.need(":")
                self.type()
                self.take("?")
                if self.peek() != "]":
                    self.need(",")
        elif self.take("-"):
            if self.kind != "number":
                self.fail()
            self.at += 1
        elif self.kind in ("string", "number"):
            self.at += 1
        else:
            self.name()
            while self.take("."):
                self.name()
            if self.take("<"):
                self.many(self.type)
                self.need(">")

    def members(self) -> None:
        while not self.take("}"):
            if self.peek() == "readonly" and self.peek(1) not in (":", "?", "("):
                self.at += 1
            if self.take("["):
                self.name()
                self.need(":") if self.peek() == ":" else self.need("in")
                self.type()
                self.need("]")
                self.take("?")
                self.need(":")
                self.type()
            else:
                if self.peek() not in ("(", "<"):
                    if self.kind not in ("name", "string", "number"):
                        self.fail()
                    self.at += 1
                    self.take("?")
                if self.peek() in ("(", "<"):
                    self.signature()
                elif self.take(":"):
                    self.type()
            if not self.take(";", ",") and self.peek() != "}" and not self.tokens[self.at][3]:
                self.fail()
