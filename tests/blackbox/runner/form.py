"""The form of a case. Whatever is not listed here makes the case an error: a key that nobody checks is no check."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

LIMITS = {
    "memory_mb", "cpu_ms", "lifetime_ms", "idle_ms", "keep_ms", "max_source_bytes", "max_tool_input_bytes", "max_tool_result_bytes",
    "max_store_bytes", "max_output_bytes", "max_output_tokens", "max_tool_calls", "max_in_flight", "max_cells_session",
    "max_cells_server", "max_sessions_key",
}  # fmt: skip
IN_SECONDS = {"cpu_seconds": "cpu_ms", "lifetime_seconds": "lifetime_ms", "idle_seconds": "idle_ms", "retain_seconds": "keep_ms"}
SWITCHES = {"allow_exec": "--allow-exec", "require_sandbox": "--require-sandbox"}
SERVER_KEYS = LIMITS | IN_SECONDS.keys() | SWITCHES.keys() | {"keys", "data_dir", "workspace", "allow_tool_url", "tool_urls", "exclusive"}
SESSION_KEYS = {"tools", "hooks", "limits", "metadata", "approval_policy", "model_warnings"}
CASE_KEYS = {"id", "area", "source", "why", "slow", "setup", "steps"}
SETUP_KEYS = {"tools", "session", "server"}

# What each step may say, beside "do", "delay_ms" (wait that long before it) and "session" (a further session with the
# same setup, by name; without it the session "main").
STEP_KEYS: dict[str, set[str]] = {
    "exec": {
        "source", "source_gen", "raw", "parses", "yield_time_ms", "max_output_tokens", "tool_call_id", "turn_id",
        "idempotency_key", "as", "save_cursor", "expect",
    },
    "wait": {"cell", "yield_time_ms", "max_tokens", "terminate", "after", "as", "save_cursor", "expect"},
    "wait_until_done": {"cell", "yield_time_ms", "max_tokens", "max", "expect"},
    "tool_results": {"results", "cell", "yield_time_ms", "save_cursor", "expect"},
    "http": {"method", "path", "headers", "body", "as", "save", "expect"},
    "sse": {"path", "headers", "for_ms", "save_last_id", "expect"},
    "abort_client_after": {"ms", "step"},
    "sleep": {"ms"},
    "parallel": {"steps", "step", "n", "times"},
    "repeat": {"times", "steps"},
    "tool_log": {
        "tool", "within_ms", "started", "finished", "cancelled", "inputs", "each", "distinct_call_ids", "max_concurrent",
        "min_concurrent", "one_cell_per",
    },
    "hook_log": {"event", "tool", "within_ms", "count", "each", "present", "absent", "states", "distinct_tool_use_ids", "paired"},
    "describe": {"tool", "tools", "expect"},
    "server": {"action", "step", "max_ms", "max_growth_mb"},
}  # fmt: skip
NEEDED: dict[str, tuple[str, ...]] = {
    "http": ("method", "path"), "abort_client_after": ("ms", "step"), "sleep": ("ms",), "repeat": ("times", "steps"),
    "wait_until_done": ("max",), "tool_results": ("results",), "describe": ("expect",), "server": ("action",),
    "sse": ("path", "for_ms"),
}  # fmt: skip
EXPECT_KEYS = {
    "status", "http_status", "http_class", "code", "detail", "detail_contains", "model_output", "output", "output_items",
    "output_text", "contains", "not_contains", "contains_any", "error", "warnings_contain", "no_warnings", "pending",
    "notifications", "truncated", "original_token_count", "cursor_increases", "cell", "location", "headers", "body",
    "body_contains", "body_not_contains", "max_body_bytes", "max_ms", "min_ms", "host_alive", "one_of",
}  # fmt: skip
ERROR_FIELDS = {"kind", "name", "message", "line", "column", "stack", "hint"}
ERROR_KEYS = ERROR_FIELDS | {f"{field}_contains" for field in ("message", "stack", "hint")} | {"kind_in"}
DESCRIBE_KEYS = {
    "ts_contains", "ts_not_contains", "ts_contains_any", "ts_parses", "ts_not_declares", "may_refuse", "max_chars", "max_ms",
    "tool_keys",
}  # fmt: skip
SSE_KEYS = {"min_events", "ids_increase", "ids_above", "contains", "not_contains"}
SERVER_ACTIONS = {"kill_and_restart", "terminate", "mark_rss", "check_rss"}
LOG_CHECKS = STEP_KEYS["tool_log"] - {"tool", "within_ms"} | STEP_KEYS["hook_log"] - {"event", "tool", "within_ms"}


class Form:
    """Checks the form of one case; `problems` says what is wrong with it."""

    def __init__(self, case: Any, stub_tools: set[str]) -> None:
        self.problems: list[str] = []
        self.assertions = 0
        if not self.keys("case", case, CASE_KEYS, ("id", "area", "steps")):
            return
        setup = case.get("setup", {})
        if self.keys("setup", setup, SETUP_KEYS):
            self.keys("setup.session", setup.get("session", {}), SESSION_KEYS)
            self.keys("setup.server", setup.get("server", {}), SERVER_KEYS)
            unknown = [name for name in setup.get("tools", []) if name not in stub_tools]
            self.problems += [f"setup.tools: there is no stub tool {name!r}" for name in unknown]
        for index, step in enumerate(case.get("steps") or []):
            self.step(f"step {index + 1}", step)
        if not self.assertions:
            self.problems.append("nothing is checked")

    def keys(self, where: str, value: Any, allowed: Iterable[str], needed: Iterable[str] = ()) -> bool:
        if not isinstance(value, dict):
            self.problems.append(f"{where}: not an object")
            return False
        self.problems += [f"{where}: unknown key {key!r}" for key in value if key not in allowed]
        self.problems += [f"{where}: {key!r} is missing" for key in needed if key not in value]
        return True

    def step(self, where: str, step: Any) -> None:
        do = step.get("do") if isinstance(step, dict) else None
        if do not in STEP_KEYS:
            self.problems.append(f"{where}: unknown step {do!r}")
            return
        where = f"{where} {do}"
        self.keys(where, step, STEP_KEYS[do] | {"do", "delay_ms", "session"}, NEEDED.get(do, ()))
        if "expect" in step:
            self.expect(f"{where}.expect", step["expect"], {"describe": DESCRIBE_KEYS, "sse": SSE_KEYS}.get(do, EXPECT_KEYS))
        match do:
            case "exec":
                if ("source" in step) == ("source_gen" in step):
                    self.problems.append(f"{where}: needs either source or source_gen")
                if "source_gen" in step:
                    self.keys(f"{where}.source_gen", step["source_gen"], {"prefix", "repeat", "times", "suffix"}, ("repeat", "times"))
            case "tool_log" | "hook_log":
                self.assertions += 1
                if not step.keys() & LOG_CHECKS:
                    self.problems.append(f"{where}: checks nothing")
            case "parallel":
                if ("steps" in step) == ("step" in step and bool({"n", "times"} & step.keys())):
                    self.problems.append(f"{where}: needs either steps, or step and n")
            case "tool_results":
                for index, result in enumerate(step.get("results", [])):
                    self.keys(f"{where}.results[{index}]", result, {"pending", "call", "cell", "as", "output", "error"})
            case "describe":
                if ("tool" in step) == ("tools" in step):
                    self.problems.append(f"{where}: needs either tool or tools")
            case "server":
                self.assertions += step.get("action") in ("terminate", "check_rss")
                if step.get("action") not in SERVER_ACTIONS or (step["action"] == "check_rss") != ("max_growth_mb" in step):
                    self.problems.append(f"{where}: unknown action {step.get('action')!r}, or max_growth_mb is missing")
        for index, inner in enumerate(step.get("steps") or []):
            self.step(f"{where}.{index + 1}", inner)
        if "step" in step:
            self.step(where, step["step"])

    def expect(self, where: str, expect: Any, allowed: set[str]) -> None:
        if not self.keys(where, expect, allowed):
            return
        self.assertions += len(expect)
        if isinstance(expect.get("error"), dict):
            self.keys(f"{where}.error", expect["error"], ERROR_KEYS)
        for index, call in enumerate(expect.get("pending") or []):
            self.keys(f"{where}.pending[{index}]", call, {"tool_name", "input"})
        for index, alternative in enumerate(expect.get("one_of") or []):
            self.expect(f"{where}.one_of[{index}]", alternative, allowed)
