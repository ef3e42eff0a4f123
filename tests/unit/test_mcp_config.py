"""Which MCP servers are named, and how: files, requests, and the names of their tools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from codemode import CodeMode, InvalidRequest, McpServer
from codemode.mcp import extra
from codemode.mcp.config import read_config
from codemode.mcp.listing import read_listing
from codemode.mcp.names import tool_names


def written(folder: Path, servers: Any) -> Path:
    file = folder / "mcp.json"
    file.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    return file


def test_a_familiar_file_is_read_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands and URLs, variables of the environment, and fields that are for other programs."""
    monkeypatch.setenv("TOKEN_OF_TEST", "t0")
    file = written(
        tmp_path,
        {
            "git": {"command": "uvx", "args": ["mcp-server-git"], "env": {"A": "${TOKEN_OF_TEST}"}, "cwd": "/tmp"},
            "far": {"type": "streamable-http", "url": "http://h/mcp", "headers": {"X-Key": "${env:TOKEN_OF_TEST}"}},
            "plain": {"url": "http://h/${NOT_SET_IN_TESTS:-there}", "autoApprove": ["x"], "timeout_ms": 5},
            "off": {"command": "x", "disabled": True},
        },
    )
    assert read_config(file) == [
        McpServer(name="git", command="uvx", args=["mcp-server-git"], env={"A": "t0"}, cwd="/tmp"),
        McpServer(name="far", url="http://h/mcp", headers={"X-Key": "t0"}),
        McpServer(name="plain", url="http://h/there", timeout_ms=5),
    ]


@pytest.mark.parametrize(
    ("servers", "said"),
    [
        ([], 'expected {"mcpServers"'),
        ({"a": 1}, "'a': expected an object"),
        ({"a": {}}, "expected either a command or a url"),
        ({"a": {"type": "sse", "url": "http://h"}}, "'sse' is not spoken here"),
        ({"a": {"command": "x", "args": "y"}}, "args has the wrong type"),
        ({"a": {"command": "x", "args": [1]}}, "expected texts"),
        ({"a": {"command": "${NOT_SET_IN_TESTS}"}}, "no environment variable NOT_SET_IN_TESTS"),
        ({"a": {"url": "http://h", "headers": {"Host": "x"}}}, "'Host' is no header that can be set"),
        ({"a": {"url": "http://h", "headers": {"X": "a\nb"}}}, "the value of the header X cannot be sent"),
        ({"": {"command": "x"}}, "a name has 1 to 64 characters"),
    ],
)
def test_a_wrong_file_is_refused_with_the_place(tmp_path: Path, servers: Any, said: str) -> None:
    """Naming the file, the server and what was expected."""
    with pytest.raises(InvalidRequest) as caught:
        read_config(written(tmp_path, servers))
    assert said in caught.value.detail
    assert "--mcp-config" in caught.value.detail


def test_secrets_are_not_shown() -> None:
    """Neither where a server is printed, nor whether it may be written down."""
    server = McpServer(name="a", url="http://h/?key=hush", headers={"X": "hush"}, bearer_token="hush")
    assert "hush" not in repr(server)
    assert "hush" not in repr(McpServer(name="a", command="x", env={"K": "hush"}))
    assert [
        each.has_secrets for each in (server, McpServer(name="a", command="x"), McpServer(name="a", url="http://h"))
    ] == [True, True, False]


def test_two_servers_of_one_name_are_refused() -> None:
    """Those of a session and of the service too."""
    with pytest.raises(InvalidRequest, match="two MCP servers 'a'"):
        CodeMode(mcp_servers=[McpServer(name="a", command="x"), McpServer(name="a", command="y")])


def test_without_the_package_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where MCP is asked for, and nowhere else."""
    monkeypatch.setattr(extra, "is_installed", lambda: False)
    CodeMode()
    with pytest.raises(InvalidRequest, match=r"pip install 'codemode\[mcp\]'"):
        CodeMode(mcp_servers=[McpServer(name="a", command="x")])


def test_tools_are_named_by_server_and_tool() -> None:
    """What no identifier may hold becomes an underscore."""
    assert tool_names([("git", "log"), ("my server", "get-it")]) == ["mcp__git__log", "mcp__my_server__get_it"]


def test_names_that_would_be_the_same_get_a_suffix_that_stays() -> None:
    """Whatever the order, and whatever else there is; long names are cut."""
    pairs = [("a", "get-it"), ("a", "get.it"), ("a", "other")]
    names = tool_names(pairs)
    assert dict(zip(pairs, names, strict=True)) == dict(
        zip(reversed(pairs), tool_names([*reversed(pairs)]), strict=True)
    )
    assert names == ["mcp__a__get_it_e036fd33", "mcp__a__get_it_f39b1b77", "mcp__a__other"]
    assert tool_names([("a", "x")], {"mcp__a__x"})[0].startswith("mcp__a__x_")
    long = tool_names([("a", "x" * 200), ("a", "x" * 201)])
    assert [len(name) for name in long] == [128, 128]
    assert len(set(long)) == 2


async def _call(*_: Any) -> None:
    """Never called."""


def test_what_cannot_be_a_tool_is_left_out() -> None:
    """The others are there, with what is known of them."""
    said: list[Any] = [
        None,
        {"name": ""},
        {"name": "a", "inputSchema": []},
        {"name": "b", "description": 1},
        {"name": "c", "inputSchema": {"description": "x" * 300_000}},
        {"name": "d", "title": "D", "annotations": {"readOnlyHint": True, "idempotentHint": "yes", "other": 1}},
        {"name": "d"},
    ]
    listing = read_listing(said, has_more=True, call=_call)
    assert [(tool.name, tool.description, tool.policy.annotations) for tool in listing.tools] == [
        ("d", "D", {"readOnlyHint": True, "title": "D"})
    ]
    assert len(listing.left_out) == len(said)  # and one for those that were not listed
