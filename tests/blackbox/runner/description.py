"""The model-facing description of exec."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from .conversation import Conversation
from .differences import brief, strings, texts, unequal
from .typescript import TypeScript, typescript_in


class DescribeStep(Conversation):
    """describe."""

    async def do_describe(self, step: dict[str, Any], where: str) -> None:
        expect = step["expect"]
        answer = await self.request("POST", "/v1/sessions", {"tools": step.get("tools") or [step["tool"]]})
        if answer.http_status == 422 and expect.get("may_refuse"):
            return
        if answer.http_status != 201:
            self.differ(where, f"the session is refused: {answer.http_status} {brief(answer.text, 300)}")
            return
        sid = answer.body["session_id"]
        specs = await self.request("GET", f"/v1/sessions/{sid}/tool_specs?format=openai_responses")
        if "tool_keys" in expect:
            keys = await self.request("POST", f"/v1/sessions/{sid}/exec", {"source": "text(JSON.stringify(Object.keys(tools).sort()))"})
            got = json.loads("".join(texts(keys.body.get("output"))) or "null") if keys.is_observation else keys.text
            for text in unequal("tool_keys", sorted(expect["tool_keys"]), got):
                self.differ(where, text)
        await self.close_session(sid)
        description = description_of_exec(specs.body)
        if specs.http_status != 200 or description is None:
            self.differ(where, f"tool_specs has no description of exec: {specs.http_status} {brief(specs.text)}")
            return
        for text in check_description(expect, description):
            self.differ(where, text)
        if "max_ms" in expect and answer.ms + specs.ms > expect["max_ms"] * self.options.slack:
            self.differ(where, f"max_ms is {expect['max_ms']}, it took {answer.ms + specs.ms:.0f} ms", timing=True)


def description_of_exec(value: Any) -> str | None:
    """The description of the tool exec, wherever the format puts it."""
    if isinstance(value, dict):
        if value.get("name") == "exec" and isinstance(value.get("description"), str):
            return str(value["description"])
        value = list(value.values())
    if isinstance(value, list):
        return next((found for inner in value if (found := description_of_exec(inner)) is not None), None)
    return None


def check_description(expect: dict[str, Any], description: str) -> Iterator[str]:
    """White space does not count, but in a part with a line break."""
    bare = "".join(description.split())

    def there(part: str) -> bool:
        return part in description or ("\n" not in part and "".join(part.split()) in bare)

    shown = brief(description, 500)
    yield from (f"no {brief(part)} in {shown}" for part in strings(expect.get("ts_contains", [])) if not there(part))
    yield from (f"there is {brief(part)} in {shown}" for part in strings(expect.get("ts_not_contains", [])) if there(part))
    yield from (f"none of {brief(parts)} in {shown}" for parts in expect.get("ts_contains_any", []) if not any(map(there, parts)))
    if len(description) > expect.get("max_chars", len(description)):
        yield f"a description of {len(description)} characters, at most {expect['max_chars']} expected"
    if expect.keys() & {"ts_parses", "ts_not_declares"}:
        try:
            declared = TypeScript(typescript_in(description)).declarations()
            yield from (f"{name!r} is declared" for name in expect.get("ts_not_declares", []) if name in declared)
            if expect.get("ts_parses") is False:
                yield "the declarations are valid TypeScript"
        except SyntaxError as problem:
            if expect.get("ts_parses") is not False:
                yield f"no valid TypeScript: {problem}"
