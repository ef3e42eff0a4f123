"""Playing one case."""

from __future__ import annotations

import asyncio
import time
import traceback
from pathlib import Path
from typing import Any

import httpx

from .cell_steps import CellSteps
from .conversation import StopCase
from .description import DescribeStep
from .http_steps import HttpSteps
from .log_steps import LogSteps
from .results import Result
from .server_steps import ServerSteps


class Player(CellSteps, HttpSteps, LogSteps, DescribeStep, ServerSteps):
    """Plays the steps of one case in sessions of its own."""

    async def play(self) -> Result:
        begun, outcome = time.monotonic(), ""
        headers = {"Authorization": f"Bearer {self.target.key}"} if self.target.key else {}
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=2)
        async with httpx.AsyncClient(base_url=self.target.url, headers=headers, limits=limits, trust_env=False) as self.client:
            try:
                async with asyncio.timeout(self.options.case_timeout * (5 if self.case.get("slow") else 1)):
                    await self.session("main")
                    await self.steps(self.case["steps"], "")
            except StopCase as stop:
                self.differ("", str(stop))
            except TimeoutError:
                self.differ("", "the case took too long")
            except Exception as problem:  # a step that makes no sense, or a fault of this program
                frame = traceback.extract_tb(problem.__traceback__)[-1]
                self.differ("", f"cannot be played: {problem!r} at line {frame.lineno} of {Path(frame.filename).name}")
                outcome = "error"
            for sid in self.sessions.values():
                await self.close_session(sid)
        outcome = outcome or ("failed" if self.differences else "passed")
        return Result(self.case, outcome, self.differences, time.monotonic() - begun, self.transcript)

    async def steps(self, steps: list[dict[str, Any]], where: str) -> None:
        for index, step in enumerate(steps):
            await self.step(step, f"{where}.{index + 1}" if where else f"step {index + 1}")

    async def step(self, step: dict[str, Any], where: str) -> None:
        if "delay_ms" in step:
            await asyncio.sleep(step["delay_ms"] / 1000)
        await getattr(self, f"do_{step['do']}")(step, f"{where} {step['do']}")

    async def do_sleep(self, step: dict[str, Any], where: str) -> None:
        await asyncio.sleep(step["ms"] / 1000)

    async def do_parallel(self, step: dict[str, Any], where: str) -> None:
        steps = step.get("steps") or [step["step"]] * int(step.get("n") or step["times"])
        playing = [asyncio.ensure_future(self.step(inner, f"{where}.{index + 1}")) for index, inner in enumerate(steps)]
        try:
            await asyncio.wait(playing)
            for each in playing:
                each.result()
        finally:
            for each in playing:
                each.cancel()

    async def do_repeat(self, step: dict[str, Any], where: str) -> None:
        for turn in range(step["times"]):
            await self.steps(step["steps"], f"{where} #{turn + 1}")
