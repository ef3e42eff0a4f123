"""Steps that do something to the server itself."""

from __future__ import annotations

import asyncio
import signal
import time
from typing import Any

from .conversation import Conversation, StopCase
from .target import CannotServe


class ServerSteps(Conversation):
    """server."""

    async def do_server(self, step: dict[str, Any], where: str) -> None:
        try:
            await self.act_on_server(step, where)
        except CannotServe as problem:
            raise StopCase(f"the server does not come up again: {problem}") from None

    async def act_on_server(self, step: dict[str, Any], where: str) -> None:
        match step["action"]:
            case "kill_and_restart":
                await self.target.kill_and_restart()
            case "terminate":
                await self.stop_server(step, where)
            case "mark_rss":
                self.rss = self.target.resident_mb()
            case "check_rss":
                if (grown := self.target.resident_mb() - self.rss) > step["max_growth_mb"]:
                    self.differ(where, f"the server process grew by {grown:.0f} MB, at most {step['max_growth_mb']} expected")

    async def stop_server(self, step: dict[str, Any], where: str) -> None:
        """SIGTERM, with a request in flight where the step has one; then the server is started again on the same data."""
        process = self.target.process
        assert process is not None
        inner = step.get("step")
        sending = asyncio.ensure_future(getattr(self, inner["do"])({**inner, "delay_ms": 0})) if inner else None
        await asyncio.sleep(0.3)
        begun = time.monotonic()
        process.send_signal(signal.SIGTERM)
        if inner and sending:
            try:
                await self.judge(await sending, inner, where)
            except StopCase as stop:
                self.differ(where, f"the request in flight was not answered: {stop}")
        limit = step.get("max_ms", 12_000) * self.options.slack
        if not await self.target.ended(begun + limit / 1000 - time.monotonic()):
            self.differ(where, f"the server still ran {limit:.0f} ms after SIGTERM", timing=True)
            process.kill()
            await self.target.ended(10)
        await self.target.start()
