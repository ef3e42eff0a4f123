"""The command `codemode`: serve, run, keys, doctor."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path

import codemode
from codemode.commands.audit_lines import STDERR, audit_to
from codemode.commands.config import Settings
from codemode.commands.doctor import doctor
from codemode.commands.key_commands import add_keys_command
from codemode.commands.mcp_command import serve_mcp
from codemode.commands.running import run
from codemode.commands.serving import PATIENCE_S, check_host, listen, serve
from codemode.errors import CodeModeError
from codemode.keys.key_file import KeyFile
from codemode.limits import Limits

_DEFAULT_PORT = 8000
_NO_DATA = "none"
_LONGEST_S = 1e9
_RUN_HELP = """\
What the script hands over goes to standard output as it comes; notifications, warnings and errors to standard error.
exit status:
  0    the script completed
  1    it failed: an error, a syntax error, or nothing left that could settle what it waits for
  2    the command was called in a wrong way
  3    a limit ended it: memory, CPU time, lifetime, output or tool calls
  4    its process was lost
  130  Ctrl-C"""

_DOCTOR_HELP = """\
exit status:
  0    the self-test passed; there may be warnings
  1    it failed
  2    the command was called in a wrong way"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit status: 0 well, 2 it was called in a wrong way, others as its help says."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except CodeModeError as problem:
        print(f"codemode: {problem.detail}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="codemode", description=codemode.__doc__.partition("\n")[0])
    parser.add_argument("--version", action="version", version=f"codemode {codemode.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _serve_command(commands.add_parser("serve", help="serve HTTP", epilog=_limits_help(), formatter_class=_Plain))
    _run_command(commands.add_parser("run", help="run a script", epilog=_RUN_HELP, formatter_class=_Plain))
    _mcp_command(commands.add_parser("mcp", help="serve one MCP client on standard input and output"))
    add_keys_command(commands.add_parser("keys", help="make, list and revoke the keys of a key file"))
    doctors = commands.add_parser(
        "doctor",
        help="examine this machine, and try whether a script runs here",
        epilog=_DOCTOR_HELP,
        formatter_class=_Plain,
    )
    _doctor_command(doctors)
    return parser


class _Plain(argparse.RawDescriptionHelpFormatter):
    """Keeps the table of limits as it is."""


def _limits_help() -> str:
    rows = [
        f"  {spec.name:24} {spec.default:>10} {spec.metadata['unit']:9} {spec.metadata['meaning']}"
        for spec in fields(Limits)
    ]
    return "limits (for --limit NAME=VALUE, with their defaults):\n" + "\n".join(rows)


def _add_settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tools", action="append", default=[], metavar="MODULE:NAME", help="a tool or a list of tools; may be repeated"
    )
    parser.add_argument(
        "--workspace", type=Path, metavar="DIR", help="offer read_file, list_dir and search_files on DIR"
    )
    parser.add_argument(
        "--allow-exec",
        action="store_true",
        help="offer exec_command, write_stdin and shell_command too: scripts may run any command as the service's user",
    )
    parser.add_argument(
        "--hooks",
        action="append",
        default=[],
        metavar="FILE.json|MODULE:NAME",
        help="hooks around every use of a tool, before those of a session; may be repeated",
    )
    parser.add_argument(
        "--limit", action="append", default=[], metavar="NAME=VALUE", help="set a limit; may be repeated"
    )
    parser.add_argument(
        "--allow-tool-url",
        action="append",
        default=[],
        metavar="PREFIX",
        help="let http tools be called at this URL prefix",
    )
    parser.add_argument(
        "--tool-secret-file", type=Path, metavar="FILE", help="sign calls of http tools with this secret"
    )
    parser.add_argument(
        "--mcp-config",
        action="append",
        type=Path,
        default=[],
        metavar="FILE",
        help='offer the tools of the MCP servers in FILE, {"mcpServers": {…}}; may be repeated',
    )
    parser.add_argument(
        "--spares", type=int, metavar="N", help="cell processes kept ready (default: two per processor)"
    )
    parser.add_argument(
        "--require-sandbox", action="store_true", help="do not start where the kernel does not confine scripts"
    )


def _settings(options: argparse.Namespace) -> Settings:
    return Settings(
        tools=options.tools,
        workspace=options.workspace,
        limits=options.limit,
        allow_tool_urls=options.allow_tool_url,
        tool_secret_file=options.tool_secret_file,
        hooks=options.hooks,
        allow_exec=options.allow_exec,
        spares=options.spares,
        require_sandbox=options.require_sandbox,
        mcp_configs=options.mcp_config,
    )


def _serve_command(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1)")
    parser.add_argument(
        "--port", type=int, default=_DEFAULT_PORT, help=f"port, 0 for a free one (default {_DEFAULT_PORT})"
    )
    parser.add_argument(
        "--insecure", action="store_true", help="allow an address that is reachable from elsewhere, without keys"
    )
    parser.add_argument(
        "--key-file",
        type=Path,
        metavar="FILE",
        help="serve only who has a key in FILE, see `codemode keys`; it is read again when it changes, and on SIGHUP",
    )
    parser.add_argument(
        "--audit-log",
        default=STDERR,
        metavar="FILE",
        help="where a line for each refused request goes: a file, stderr (default), or off",
    )
    parser.add_argument(
        "--grace", type=_seconds, default=5.0, metavar="S", help="seconds that cells get when stopping (default 5)"
    )
    parser.add_argument(
        "--data-dir",
        metavar="DIR",
        help="keep sessions, stored values, output and events in this directory, so that they outlive the server, "
        "killed or stopped; `none`, the default, keeps them in memory",
    )
    parser.add_argument(
        "--max-connections",
        type=_at_least_one,
        metavar="N",
        help="HTTP connections at once (default: what descriptors allow, at most 4096)",
    )
    parser.add_argument(
        "--request-timeout",
        type=_more_than_zero,
        default=PATIENCE_S,
        metavar="S",
        help=f"seconds to send a request in, and one more for each KiB (default {PATIENCE_S:g})",
    )
    parser.add_argument("--no-mcp", action="store_true", help="do not serve MCP clients at /mcp")
    parser.add_argument("--log-level", default="warning", choices=["debug", "info", "warning", "error"])
    _add_settings(parser)
    parser.set_defaults(run=_serve)


def _at_least_one(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1, got {text!r}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 <= value < _LONGEST_S:
        raise argparse.ArgumentTypeError(f"expected a number of seconds from 0, got {text!r}")
    return value


def _more_than_zero(text: str) -> float:
    value = _seconds(text)
    if value == 0:
        raise argparse.ArgumentTypeError(f"expected a number of seconds above 0, got {text!r}")
    return value


def _serve(options: argparse.Namespace) -> int:
    keys = None if options.key_file is None else KeyFile(options.key_file)
    local_only = check_host(options.host, insecure=options.insecure, has_keys=keys is not None)
    data_dir = None if options.data_dir in (None, _NO_DATA) else Path(options.data_dir)
    service = replace(_settings(options), data_dir=data_dir).service()
    listener = listen(options.host, options.port)
    host = f"[{options.host}]" if ":" in options.host else options.host
    port = listener.getsockname()[1]

    def announce() -> None:
        # Programs read the first line, people also the others.
        steps = _first_steps(host, port, needs_key=keys is not None)
        print(f"codemode {codemode.__version__} on http://{host}:{port}\n{steps}")
        if service.command_root is not None:
            print("commands: allowed; scripts may run anything as the user of this service (--allow-exec)")
        print(f"sandbox: {service.pool.confinement.summary}\n{_where_data_is(options.data_dir)}", flush=True)

    with audit_to(options.audit_log):
        return serve(
            service,
            listener,
            announce,
            local_only=local_only,
            grace=options.grace,
            log_level=options.log_level,
            keys=keys,
            connections=options.max_connections,
            patience=options.request_timeout,
            with_mcp=not options.no_mcp,
        )


def _where_data_is(data_dir: str | None) -> str:
    if data_dir is None:
        return (
            "data: in memory, so a restart forgets sessions and all that is in them; --data-dir DIR keeps them "
            "(--data-dir none forgets them too, and leaves out this hint)"
        )
    return "data: in memory" if data_dir == _NO_DATA else f"data: {data_dir}"


def _first_steps(host: str, port: int, *, needs_key: bool) -> str:
    """A line to paste into a shell, which runs a script."""
    reachable = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(host, host)
    script = "text(`6 times 7 is ${6 * 7}`)"
    words = ["curl", f"http://{reachable}:{port}/v1/exec", "-H", "Content-Type: text/javascript", "-d", script]
    if needs_key:
        words += ["-H", "Authorization: Bearer KEY"]
    return f"try it: {shlex.join(words)}"


def _run_command(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="the script; - is standard input")
    parser.add_argument("--json", action="store_true", help="print the final observation as JSON instead")
    _add_settings(parser)
    parser.set_defaults(run=lambda options: run(_settings(options), options.file, as_json=options.json))


def _mcp_command(parser: argparse.ArgumentParser) -> None:
    _add_settings(parser)
    parser.set_defaults(run=lambda options: serve_mcp(_settings(options)))


def _doctor_command(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")
    _add_settings(parser)
    parser.set_defaults(run=lambda options: doctor(_settings(options), as_json=options.json))
