"""What a model is told of exec, wait and a session's tools: complete, in every API's form, and at a bounded price."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import httpx
import jsonschema_rs
import pytest

from codemode._bundled import bundled
from codemode.errors import InvalidRequest
from codemode.service import CodeMode
from codemode.tools.policy import ToolPolicy
from codemode.tools.registry import ToolRegistry
from codemode.tools.specs import FORMATS, MOST_TOKENS, declaration_of, tool_specs
from codemode.tools.tool import PythonHandler, Tool, tool
from tests.blackbox.runner.typescript import TypeScript

ISSUE = {
    "type": "object",
    "properties": {
        "number": {"type": "integer"},
        "title": {"type": "string"},
        "state": {"enum": ["open", "closed"]},
        "labels": {"type": "array", "items": {"type": "string"}},
        "assignee": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
    "required": ["number", "title", "state", "labels", "assignee"],
    "additionalProperties": False,
}


def a_tool(name: str, about: str, output: Any = None, **properties: Any) -> Tool:
    """With all but the last of its properties required."""
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(properties)[:-1],
        "additionalProperties": False,
    }
    return Tool(name=name, description=about, input_schema=schema, output_schema=output)


TEXT = {"type": "string"}
LIMIT = {"type": "integer", "minimum": 1, "maximum": 100, "default": 20}
TEN = [
    a_tool(
        "read_file", "Read a file of the workspace.", TEXT, path={**TEXT, "description": "Relative to the workspace"}
    ),
    a_tool("list_dir", "List a folder.", {"type": "array", "items": TEXT}, path=TEXT),
    a_tool("search_files", "Search for a text in all files.", None, query=TEXT, glob=TEXT, limit=LIMIT),
    a_tool(
        "list_issues",
        "List the issues of a repository.",
        {"type": "array", "items": ISSUE},
        repo=TEXT,
        state={"enum": ["open", "closed", "all"]},
    ),
    a_tool(
        "get_issue", "Get an issue.", ISSUE, repo=TEXT, number={"type": "integer"}, with_comments={"type": "boolean"}
    ),
    a_tool(
        "comment",
        "Comment on an issue. Markdown works.",
        None,
        repo=TEXT,
        number={"type": "integer"},
        body=TEXT,
        dry={"type": "boolean"},
    ),
    a_tool("get_weather", "The weather of a city, now or on a day.", None, city=TEXT, day={**TEXT, "format": "date"}),
    a_tool(
        "send_mail",
        "Send a mail.",
        None,
        to={"type": "array", "items": {**TEXT, "format": "email"}, "minItems": 1},
        subject=TEXT,
        body=TEXT,
        cc={"type": "array", "items": TEXT},
    ),
    a_tool(
        "query",
        "Run a read-only SQL query.",
        {
            "type": "object",
            "properties": {
                "columns": {"type": "array", "items": TEXT},
                "rows": {"type": "array", "items": {"type": "array"}},
            },
        },
        sql=TEXT,
        limit=LIMIT,
    ),
    Tool(name="note", description="Keep a note.", kind="freeform"),
]


def many(number: int) -> list[Tool]:
    """Tools of several servers, with long texts and much to give."""
    return [
        a_tool(
            f"mcp__server{place % 7}__operation_{place}",
            f"Creates or updates the resource of kind {place} in the workspace of the user. Takes a while! " * 3,
            ISSUE,
            **{
                f"field_{one}": {**TEXT, "description": "What it is that should be there afterwards"}
                for one in range(8)
            },
        )
        for place in range(number)
    ]


def description(tools: Sequence[Tool], **options: Any) -> str:
    found = next(each for each in tool_specs(ToolRegistry(tools), "mcp", **options) if each["name"] == "exec")
    return str(found["description"])


def tokens(text: str) -> int:
    return -(-len(text.encode()) // 4)


def blocks(text: str) -> str:
    return "\n".join(re.findall(r"^```ts\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))


def test_each_format_is_ready_for_its_api() -> None:
    """exec is a custom tool where there is such a thing; parameters are JSON Schemas."""
    registry = ToolRegistry(TEN)
    made = {name: tool_specs(registry, name) for name in FORMATS}
    assert [[sorted(each) for each in made[name]] for name in FORMATS] == [
        [["description", "name", "type"], ["description", "name", "parameters", "strict", "type"]],
        [["function", "type"]] * 2,
        [["description", "input_schema", "name"]] * 2,
        [["description", "inputSchema", "name"]] * 2,
    ]
    assert [each["type"] for each in made["openai_responses"]] == ["custom", "function"]
    inner = [each["function"] for each in made["openai_chat"]]
    assert [sorted(each) for each in inner] == [["description", "name", "parameters"]] * 2
    for schema in [*(each["parameters"] for each in inner), *(each["input_schema"] for each in made["anthropic"])]:
        jsonschema_rs.validator_for(schema)
    assert json.loads(json.dumps(made)) == made
    assert "@exec" in made["openai_responses"][0]["description"]
    assert "@exec" not in made["mcp"][0]["description"]


def test_an_unknown_format_is_refused() -> None:
    """The refusal names those that there are."""
    with pytest.raises(InvalidRequest, match=", ".join(FORMATS)):
        tool_specs(ToolRegistry([]), "nope")


def test_the_arguments_are_those_of_the_requests() -> None:
    """So that a backend can hand them on as they are."""
    bundled("api")
    from codemode.api.schemas import ExecRequest, WaitRequest

    exec_, wait = tool_specs(ToolRegistry([]), "anthropic")
    ExecRequest.model_validate({"source": "1", "yield_time_ms": 1, "max_output_tokens": 1})
    assert exec_["input_schema"]["properties"].keys() <= ExecRequest.model_fields.keys()
    assert wait["input_schema"]["properties"].keys() <= WaitRequest.model_fields.keys()


def test_the_declaration_of_a_tool() -> None:
    """Description, arguments and what comes back."""
    made = [declaration_of(each) for each in ToolRegistry([TEN[2], TEN[4], TEN[9]])]
    assert made == [
        "declare const tools: {\n// Get an issue.\n"
        "get_issue(args: { repo: string; number: number; with_comments?: boolean }): Promise<{\n"
        '  number: number;\n  title: string;\n  state: "open" | "closed";\n  labels: string[];\n'
        "  assignee: string | null;\n}>;\n};",
        "declare const tools: {\n// Keep a note.\nnote(input: string): Promise<unknown>;\n};",
        "declare const tools: {\n// Search for a text in all files.\n"
        "search_files(args: { query: string; glob: string; limit?: number /* 1..100, default 20 */ }): Promise<unknown>;\n};",
    ]


def test_a_python_function_is_declared() -> None:
    """With the schemas that pydantic makes of its annotations."""

    @tool
    def find(words: list[str], limit: int = 10, tag: str | None = None) -> dict[str, int]:
        """Find words.

        Returns how often each comes.
        """
        return dict.fromkeys(words, limit)

    assert declaration_of(ToolRegistry([find])[0]) == (
        "declare const tools: {\n// Find words.\n// Returns how often each comes.\n"
        "find(args: { words: string[]; limit?: number /* default 10 */; tag?: string | null }): "
        "Promise<{ [key: string]: number }>;\n};"
    )


def test_arguments_that_may_be_left_out() -> None:
    """Without a required one, and without a schema."""
    made = [
        declaration_of(each).splitlines()[1] for each in ToolRegistry([a_tool("a", "", None, p=TEXT), Tool(name="b")])
    ]
    assert made == ["a(args?: { p?: string }): Promise<unknown>;", "b(args?: object): Promise<unknown>;"]


def test_tools_that_scripts_may_not_call_are_left_out() -> None:
    """They would be refused."""
    tools = [
        TEN[0],
        Tool(
            name="secret", handler=PythonHandler(run=str, is_async=False), policy=ToolPolicy(allowed_callers=["direct"])
        ),
    ]
    assert ("read_file" in description(tools), "secret" in description(tools)) == (True, False)
    assert description([]).endswith("There are no tools.")


def test_types_of_one_name_are_told_apart() -> None:
    """The same type is written once, another gets the tool's name before it."""

    def with_tree(name: str, value: Any) -> Tool:
        tree = {
            "type": "object",
            "properties": {"v": value, "kids": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}},
        }
        return Tool(name=name, input_schema={"$ref": "#/$defs/Tree", "$defs": {"Tree": tree}})

    text = blocks(description([with_tree("a", TEXT), with_tree("b", TEXT), with_tree("c", {"type": "number"})]))
    assert text == (
        "type Tree = { v?: string; kids?: Tree[] };\ntype c_Tree = { v?: number; kids?: c_Tree[] };\n"
        "declare const tools: {\na(args?: Tree): Promise<unknown>;\nb(args?: Tree): Promise<unknown>;\n"
        "c(args?: c_Tree): Promise<unknown>;\n};\n"
    )


def test_what_it_costs() -> None:
    """In tokens of four bytes: of exec itself, of ten tools, and of wait."""
    exec_, wait = tool_specs(ToolRegistry([]), "openai_responses")
    assert tokens(exec_["description"]) < 450
    assert tokens(description(TEN)) < 450 + 50 * len(TEN)
    assert tokens(wait["description"]) < 60


def test_a_large_set_is_an_index() -> None:
    """All are named, with as much of their purpose as there is room for; as many as fit are declared."""
    text = description(many(40))
    assert tokens(text) <= MOST_TOKENS
    assert all(f"__operation_{place}" in text for place in range(40))
    assert "There are 40 tools; " in text
    assert (
        "- mcp__server4__operation_39: Creates or updates the resource of kind 39 in the workspace of the user.\n"
        in text
    )
    assert "ALL_TOOLS" in text
    assert "search_tools" not in text
    assert "search_tools(query, limit)" in description(many(40), has_search=True)
    declared = set(re.findall(r"^(mcp__\w+)\(args", blocks(text), re.MULTILINE))
    assert len(declared) > 3
    assert not [name for name in declared if f"- {name}:" in text]
    TypeScript(blocks(text)).declarations()


@pytest.mark.parametrize("number", [300, 1000])
def test_the_largest_sets_stay_within_the_budget(number: int) -> None:
    """300 tools keep their names; of 1000 it is said how many there are."""
    text = description(many(number), has_search=True)
    assert tokens(text) < 4_000
    named = len(re.findall(r"__operation_\d+", text))
    assert named == 300 if number == 300 else (named > 200 and f"- and {number - named} more" in text)


@pytest.mark.parametrize("most_tokens", [0, 500, 1000, 2000, 100_000])
def test_the_budget_is_kept(most_tokens: int) -> None:
    """But for what exec is, and that there are tools."""
    text = description(many(60), most_tokens=most_tokens)
    assert tokens(text) <= max(most_tokens, 650)
    assert ("There are 60 tools" in text) == (most_tokens < 100_000)


async def test_a_session_is_asked() -> None:
    """As over HTTP, for a program that has the service in it."""
    async with CodeMode(TEN, spares=0) as cm:
        session = cm.session("default")
        assert session.tool_specs("mcp") == tool_specs(session.registry, "mcp")
        assert len(session.tool_specs("mcp")) == 2


async def test_over_http() -> None:
    """A format has to be named, and one that there is."""
    bundled("api")
    from codemode.api.app import create_app

    service = CodeMode(spares=0)
    app = create_app(service)
    async with service:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
            declared = {"tools": [{"name": "get-stock", "description": "Look. Then see.", "input_schema": ISSUE}]}
            sid = (await http.post("/v1/sessions", json=declared)).json()["session_id"]
            place = f"/v1/sessions/{sid}/tool_specs"
            good = await http.get(f"{place}?format=anthropic")
            bad = [await http.get(f"{place}{query}") for query in ("", "?format=nope", "?format=", "?fmt=mcp")]
    assert [each["name"] for each in good.json()] == ["exec", "wait"]
    assert "get_stock(args: {" in good.json()[0]["description"]
    assert [(each.status_code, each.json()["code"]) for each in bad] == [(422, "invalid_request")] * 4
    assert all(name in bad[0].json()["detail"] for name in FORMATS)
