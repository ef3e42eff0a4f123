"""Makes TypeScript programs: valid ones, with types wherever they may stand and any blanks between their words."""

from __future__ import annotations

import re

from hypothesis import strategies as st

# Between two words of a type or behind one: `~`. Where the line may not end: `_`.
_BLANKS = ["", " ", "  ", "\t", "\u00a0", " /* c */ ", "/*\U0001f600*/"]
_BREAKS = ["\n", "\r\n", "\u2028", " // \u00e9: \U0001f600\n", "\n\n  ", "/*\n*/"]
blanks = st.sampled_from(_BLANKS)
gaps = st.sampled_from(_BLANKS + _BREAKS)

_LEAVES = [
    "string",
    "number",
    "any",
    "unknown",
    "T",
    "Map<~string~,~T[]~>",
    "'\U0001f600'",
    "`a${~string~}b`",
    "(-1)",  # without parentheses the parser reads on in the next line
    "typeof~ f",
    "readonly string[]",
    "A.B.C<~1~>",
    "null",
    "this",
    "[~a~:~string~,~b?~:~T~]",
    "unique symbol",
]
_TYPES = st.recursive(
    st.sampled_from(_LEAVES),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda t: f"{t[0]}~|~{t[1]}"),
        st.tuples(inner, inner).map(lambda t: f"(~{t[0]}~&~{t[1]}~)"),
        st.tuples(inner, inner).map(lambda t: f"{{~a~:~{t[0]}~;~readonly ['b c']?~:~{t[1]}~}}"),
        st.tuples(inner, inner).map(lambda t: f"(~(~x~:~{t[0]}~,~...y~:~T[]~)~=>~{t[1]}~)"),
        inner.map(lambda t: f"{{~[~K in~ keyof T~]?~:~{t}~}}"),
        st.tuples(inner, inner).map(lambda t: f"(T extends~ {t[0]}~?~{t[1]}~:~never)"),
        inner.map(lambda t: f"Promise<~{t}~>"),
    ),
    max_leaves=4,
)

# $T stands for a type, $E for an expression, $N for a name of its own.
_EXPRESSIONS = [
    "a",
    "1",
    "'\U0001f600'",
    "($E_ as~ $T)",
    "($E_ satisfies~ $T)",
    "($E_ as~ const)",
    "a_!",
    "a_!~.b_!~[$E]",
    "f<~$T~>($E,~$E)",
    "new~ F<~$T~>($E)",
    "f<~$T~>`t${$E}`",
    "a?.<~$T~>($E)",
    "((x~:~$T,~y_?~:~$T~=~$E)_:~$T_=>~$E)",
    "(async_<~U~>(x~:~$T)_:~$T_=>~$E)",
    "(<~const U ~extends~ $T~=~any~,~>(x~:~U)_=>~x)",
    "(function <~U~>(this~:~$T,~x?~:~U)~:~$T~{~return ($E)~})",
    "({~a: $E,~m<~U~>(x~:~U)~:~$T~{~},~get b()~:~$T~{~return ($E)~}~}).a",
    "[$E,~$E]",
    "`${$E}`",
    "($E ? $E : $E)",
    "(class~ <~U~> extends~ F<~$T~> implements~ A~,~B<~U~> {~})",
]
_STATEMENTS = [
    "let $N~:~$T~=~$E~;",
    "let $N~:~$T~=~$E\n",
    "let $N_!~:~$T\n",
    "const {~a: $N,~b$N = $E~}~:~$T~=~$E~;",
    "type $N~<~U~>~=~$T~;",
    "type $N~=~$T\n",
    "interface $N<~U~> extends~ A~,~B<~U~> {~a~?~:~$T~;~(~x~:~$T~)~:~$T~}",
    "declare const $N~:~$T\n",
    "declare function $N(~x~:~$T~)~:~$T\n",
    "function $N(x~:~$T)~:~$T~;~function $N(x?~:~any,~...y~:~Array<$T>)~:~$T~{~return ($E)~}",
    "async function* $N<~U~>(this~:~any)~:~$T~{~yield ($E)~}",
    "function $N(x~:~any)~:~x is~ $T~{~return ($E)~}",
    "function $N(x~:~any)~:~asserts x is~ $T~{~}",
    "class $N<~U~> {~private_ readonly_ a~:~$T~=~$E~;~static_ b_!~:~$T\n declare_ c~:~$T~;~[k~:~string]~:~any~}",
    "class $N {~get~:~$T\n public_ ['d']_?~:~$T\n protected async_ *e<~U~>()~:~$T~{~}~override_ f_?()~:~void {~}~}",
    "abstract_ class $N {~abstract_ a~:~$T~;~abstract m()~:~$T~;~constructor(x~:~$T);~constructor(x~:~any) {~}~}",
    "for (const $N of~ ($E_ as~ $T)) {~}",
    "try {~} catch (e~:~unknown) {~$E~}",
    "$E_ as~ $T\n($E)\n",
    "a_!\n",
    "namespace $N {~export type A~=~$T~;~interface B {~}~}",
    "declare namespace $N {~let x~:~$T~}",
    "import type {~A~} from 'x'\n",
    "export type $N~=~$T~;",
    "text($E)\n",
    "if ($E) {~text($E_ as~ $T)~} else text($E)\n",
]


@st.composite
def _filled(draw: st.DrawFn, template: str, depth: int) -> str:
    """A template with everything that it asks for, but for its name."""
    parts: list[str] = []
    for part in re.split(r"(\$[TE]|~|_)", template):
        if part == "$T":
            parts.append(draw(_filled(draw(_TYPES), depth)))
        elif part == "$E":
            parts.append(
                draw(_filled(draw(st.sampled_from(_EXPRESSIONS if depth > 0 else _EXPRESSIONS[:3])), depth - 1))
            )
        else:
            parts.append(draw(gaps) if part == "~" else draw(blanks) if part == "_" else part)
    return "".join(parts)


@st.composite
def programs(draw: st.DrawFn) -> str:
    """A program of a few statements, each name used once."""
    chosen = draw(st.lists(st.sampled_from(_STATEMENTS), min_size=1, max_size=5))
    filled = [draw(_filled(template, 2)) for template in chosen]
    return "".join(text.replace("$N", f"v{number}") for number, text in enumerate(filled))
