"""Steps that look at what reached the stub."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from .conversation import Conversation
from .differences import brief, lacking, unequal
from .stub import Call


class LogSteps(Conversation):
    """tool_log and hook_log."""

    async def do_tool_log(self, step: dict[str, Any], where: str) -> None:
        await self.eventually(step, where, lambda: list(self.tool_log(step)))

    def tool_log(self, step: dict[str, Any]) -> Iterator[str]:
        calls = [call for call in self.calls(step) if call.group != "hook" and step.get("tool") in (None, call.request.get("tool_name"))]
        counts = {
            "started": len(calls),
            "finished": sum(call.ended is not None and not call.cancelled for call in calls),
            "cancelled": sum(call.cancelled for call in calls),
            "distinct_call_ids": len({(call.request.get("cell_id"), call.request.get("runtime_tool_call_id")) for call in calls}),
        }
        for name, count in counts.items():
            yield from unequal(name, step.get(name, count), count)
        if "inputs" in step:
            yield from unequal("inputs", step["inputs"], [call.request.get("input") for call in calls])
        for call in calls:
            yield from lacking("the request", self.filled(step.get("each", {})), call.request)
        events = sorted([(call.started, 1) for call in calls] + [(call.ended or float("inf"), -1) for call in calls])
        most = max((sum(change for _, change in events[: index + 1]) for index in range(len(events))), default=0)
        if not step.get("min_concurrent", 0) <= most <= step.get("max_concurrent", most):
            yield f"{most} calls ran at once"
        if "one_cell_per" in step:
            pairs = {(call.request["input"].get(step["one_cell_per"]), call.request.get("cell_id")) for call in calls}
            if not len({first for first, _ in pairs}) == len({second for _, second in pairs}) == len(pairs):
                yield f"{step['one_cell_per']} and cells do not belong together one to one: {brief(sorted(map(str, pairs)))}"

    async def do_hook_log(self, step: dict[str, Any], where: str) -> None:
        await self.eventually(step, where, lambda: list(self.hook_log(step)))

    def hook_log(self, step: dict[str, Any]) -> Iterator[str]:
        everything = [call.request for call in self.calls(step) if call.group == "hook"]
        events = [
            event
            for event in everything
            if step.get("event") in (None, event.get("hook_event_name")) and step.get("tool") in (None, event.get("tool_name"))
        ]
        if "count" in step:
            yield from unequal("hook events", step["count"], len(events))
        for event in events:
            yield from lacking("the event", self.filled(step.get("each", {})), event)
            yield from (f"the event has {name!r}: {brief(event)}" for name in step.get("absent", []) if name in event)
            yield from (f"the event lacks {name!r}: {brief(event)}" for name in step.get("present", []) if not event.get(name))
        if "states" in step:
            yield from unequal("states", step["states"], [(event.get("tool_status") or {}).get("state") for event in events])
        if "distinct_tool_use_ids" in step:
            yield from unequal("distinct tool_use_ids", step["distinct_tool_use_ids"], len({event.get("tool_use_id") for event in events}))
        if step.get("paired"):
            ends = {name: sorted((str(event.get("tool_use_id")), json.dumps(event.get("tool_source"), sort_keys=True))
                                 for event in everything if event.get("hook_event_name") == name)
                    for name in ("PreToolUse", "PostToolUse")}  # fmt: skip
            if ends["PreToolUse"] != ends["PostToolUse"]:
                yield f"starts and ends do not pair: {brief(ends, 400)}"

    def calls(self, step: dict[str, Any]) -> list[Call]:
        """What reached the stub from one session of this case."""
        calls = self.stub.calls.get(self.token, [])
        if len(self.sessions) > 1:
            sid = self.sessions.get(step.get("session", "main"))
            calls = [call for call in calls if call.request.get("session_id") == sid]
        return list(calls)

    async def eventually(self, step: dict[str, Any], where: str, look: Callable[[], list[str]]) -> None:
        """A log comes to rest a moment after the answer it belongs to; within that moment it must be right, and stay so."""
        deadline = time.monotonic() + step.get("within_ms", 2000) / 1000
        while look() and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.05)
        for text in look():
            self.differ(where, f"{step.get('tool', '')} {text}".strip())
