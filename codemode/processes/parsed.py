"""A coarse reading of a command, for people who decide whether it may run. Says less rather than too much."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

_SEPARATORS: Final = re.compile(r"&&|\|\||[;|]")
_ODD: Final = frozenset("`$<>(){}\\&\n\r#!")  # outside of quotes: what makes a shell do more than run words
_ODD_IN_QUOTES: Final = frozenset("`$\\!")  # within double ones
_PRINTED_LINES: Final = re.compile(r"(\d+|\$)(,(\d+|\$))?p")
_LAST_LINES: Final = re.compile(r"-[nc]?[+-]?\d+|-[qv]+")
_RUNS_OR_WRITES: Final = {  # options with which a program does more than look
    "find": re.compile(r"-(exec|execdir|ok|okdir|delete|fls|fprint|fprint0|fprintf)"),
    "tree": re.compile(r"-o.*|--output.*|-R"),
    "rg": re.compile(r"--pre(=.*)?|--hostname-bin(=.*)?|-z|--search-zip"),
}
_WITH_VALUE: Final = {
    "grep": {"-A", "-B", "-C", "-m", "--include", "--exclude", "--exclude-dir", "--color"},
    "rg": {"-A", "-B", "-C", "-m", "-g", "-t", "-T", "--glob", "--type", "--type-not", "--max-count", "--context"},
    "tree": {"-L", "-I", "-P"},
}
_PATTERN: Final = {"-e", "--regexp"}

Reading = dict[str, Any]


class _Simple(NamedTuple):
    words: list[str]
    text: str
    is_filter: bool  # reads the output of the one before


_MOST_READINGS: Final = 20
_LONGEST: Final = 4096  # characters; it is done on the event loop


def parsed(cmd: str) -> list[Reading]:
    """What the parts of a command do: {"type": "read" | "listFiles" | "search" | "unknown", "cmd", path?, query?}.

    A part is read if it is a plain cat, head, tail, sed -n, ls, find, tree, rg or grep, which do nothing but look.
    Filters without a file of their own say nothing. Whatever has redirects, substitutions, variables, quotes that do
    not close or the like is one unknown, and so is what is longer than anybody would look at. Never raises.
    """
    if len(cmd) > _LONGEST:
        return [{"type": "unknown", "cmd": cmd}]
    try:
        simple = _split(cmd)
    except ValueError:
        return [{"type": "unknown", "cmd": cmd}]
    found = [reading for each in simple for reading in _readings(each)]
    is_short = len(found) <= _MOST_READINGS and sum(len(each["cmd"]) for each in found) <= 4 * len(cmd)
    return found if found and is_short else [{"type": "unknown", "cmd": cmd}]


def _split(cmd: str) -> list[_Simple]:
    """The commands between separators, in words without their quotes. Raises ValueError for what is odd."""
    found: list[_Simple] = []
    words: list[str] = []
    word: str | None = None
    start = at = 0
    is_filter = False

    def end(stop: int) -> None:
        if word is not None:
            words.append(word)
        if not words:
            raise ValueError("nothing between two separators")
        found.append(_Simple(words, cmd[start:stop].strip(), is_filter))

    while at < len(cmd):
        sign = cmd[at]
        separator = _SEPARATORS.match(cmd, at)
        if separator:
            end(at)
            words, word, is_filter = [], None, separator[0] == "|"
            start = at = separator.end()
        elif sign in "'\"":
            stop = cmd.index(sign, at + 1)
            inner = cmd[at + 1 : stop]
            if sign == '"' and _ODD_IN_QUOTES & set(inner):
                raise ValueError("more than text in quotes")
            word = (word or "") + inner
            at = stop + 1
        elif sign in " \t":
            if word is not None:
                words.append(word)
            word, at = None, at + 1
        elif sign in _ODD or not sign.isprintable():
            raise ValueError("more than words")
        else:
            word, at = (word or "") + sign, at + 1
    if words or word is not None or not found or cmd[:start].rstrip()[-1:] != ";":
        end(len(cmd))
    return found


def _readings(simple: _Simple) -> list[Reading]:
    name, *rest = simple.words
    read = _READERS.get(name)
    odd = _RUNS_OR_WRITES.get(name)
    if read is None or (odd is not None and any(odd.fullmatch(word) for word in rest)):
        return [{"type": "unknown", "cmd": simple.text}]
    found = read(name, rest)
    if found is None or (not found and not simple.is_filter):
        return [{"type": "unknown", "cmd": simple.text}]
    return [{"type": each.pop("type"), "cmd": simple.text, **each} for each in found]


def _files(_: str, words: Sequence[str]) -> list[Reading]:
    return [{"type": "read", "path": word} for word in words if not word.startswith("-")]


def _ends(_: str, words: Sequence[str]) -> list[Reading] | None:
    files: list[Reading] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word in ("-n", "-c") and rest:
            rest.pop(0)
        elif not word.startswith("-"):
            files.append({"type": "read", "path": word})
        elif not _LAST_LINES.fullmatch(word):
            return None
    return files


def _sed(_: str, words: Sequence[str]) -> list[Reading] | None:
    if len(words) < 2 or words[0] != "-n" or not _PRINTED_LINES.fullmatch(words[1]):
        return None
    if any(word.startswith("-") for word in words[2:]):
        return None
    return [{"type": "read", "path": word} for word in words[2:]]


def _listing(name: str, words: Sequence[str]) -> list[Reading]:
    if name == "find":  # what comes after its folders is an expression
        stop = next((at for at, word in enumerate(words) if word[:1] in ("-", "!")), len(words))
        places = list(words[:stop])
    else:
        places = _plain(name, words)[0]
    return [{"type": "listFiles", "path": place} for place in places] or [{"type": "listFiles"}]


def _search(name: str, words: Sequence[str]) -> list[Reading] | None:
    places, pattern = _plain(name, words)
    if name == "rg" and "--files" in words:
        return [{"type": "listFiles", "path": place} for place in places] or [{"type": "listFiles"}]
    if pattern is None:
        if not places:
            return None
        pattern = places.pop(0)
    found: Reading = {"type": "search", "query": pattern}
    return [found | {"path": place} for place in places] or [found]


def _plain(name: str, words: Sequence[str]) -> tuple[list[str], str | None]:
    """The words that are no options, and the pattern if an option has it."""
    plain: list[str] = []
    pattern: str | None = None
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            plain += rest
            break
        if word in _PATTERN and name in ("rg", "grep") and rest:
            pattern = rest.pop(0)
        elif word in _WITH_VALUE.get(name, ()) and rest:
            rest.pop(0)
        elif not word.startswith("-") or word == "-":
            plain.append(word)
    return plain, pattern


_READERS: Final[dict[str, Callable[[str, Sequence[str]], list[Reading] | None]]] = {
    "cat": _files,
    "head": _ends,
    "tail": _ends,
    "sed": _sed,
    "ls": _listing,
    "find": _listing,
    "tree": _listing,
    "rg": _search,
    "grep": _search,
}
