"""Steps that start a cell, wait for it, or give it the results of its calls."""

from __future__ import annotations

import re
import time
from typing import Any

from .answers import Answer
from .conversation import Conversation, StopCase, patience_of, picked
from .differences import brief


class CellSteps(Conversation):
    """exec, wait, wait_until_done and tool_results."""

    async def do_exec(self, step: dict[str, Any], where: str) -> None:
        await self.judge(await self.exec(step), step, where)

    async def exec(self, step: dict[str, Any]) -> Answer:
        source = step.get("source")
        if source is None:
            parts = step["source_gen"]
            source = parts.get("prefix", "") + parts["repeat"] * parts["times"] + parts.get("suffix", "")
        headers = {"Idempotency-Key": step["idempotency_key"]} if "idempotency_key" in step else {}
        pragma = re.match(r"\s*// @exec:.*?\"yield_time_ms\": *(\d+)", source)
        patience = max(patience_of({"yield_time_ms": int(pragma[1])}) if pragma else 0, patience_of(step))
        body: Any = {"source": source} | picked(step, "yield_time_ms", "max_output_tokens", "tool_call_id", "turn_id")
        if step.get("raw"):
            headers["Content-Type"] = "text/javascript"
            body = source
        path = f"/v1/sessions/{await self.session(step.get('session', 'main'))}/exec"
        answer = await self.request("POST", path, body, headers, patience)
        self.remember(answer, step, "last")
        return answer

    async def do_wait(self, step: dict[str, Any], where: str) -> None:
        await self.judge(await self.wait(step), step, where)

    async def wait(self, step: dict[str, Any]) -> Answer:
        body = {"cell_id": self.cell(step.get("cell", "last"))} | picked(step, "yield_time_ms", "max_tokens", "terminate")
        if "after" in step:
            body["after"] = self.saved_cursors[step["after"]] if isinstance(step["after"], str) else step["after"]
        path = f"/v1/sessions/{await self.session(step.get('session', 'main'))}/wait"
        answer = await self.request("POST", path, body, patience_ms=patience_of(step))
        self.remember(answer, step)
        return answer

    async def do_wait_until_done(self, step: dict[str, Any], where: str) -> None:
        """Waits again and again; what the waits handed over together is judged as one answer, as is the time they took."""
        output: list[Any] = []
        begun = time.perf_counter()
        for _ in range(step["max"]):
            answer = await self.wait(step)
            if not answer.is_observation:
                break
            output += answer.body["output"]
            if answer.body["status"] != "running":
                break
        if answer.is_observation:
            head, *rest = answer.body["model_output"]
            errors = [item for item in rest if str(item.get("text")).startswith("Script error:\n")]
            shown = [{**item, "type": f"input_{item['type']}"} for item in output]
            answer.body |= {"output": output, "model_output": [head, *shown, *errors]}
        answer.ms = (time.perf_counter() - begun) * 1000
        await self.judge(answer, step, where)

    def cell(self, name: str) -> str:
        if name == "last" and "last" not in self.cells:
            raise StopCase("no exec has given a cell yet")
        return self.cells.get(name, name)

    async def do_tool_results(self, step: dict[str, Any], where: str) -> None:
        await self.judge(await self.tool_results(step), step, where)

    async def tool_results(self, step: dict[str, Any]) -> Answer:
        """A result names its call by its place among the pending calls of the last observation, by a name given before, or by id."""
        results = []
        for given in step["results"]:
            result = picked(given, "output", "error") | {"cell_id": self.cell(given.get("cell", "last"))}
            if "pending" in given:
                calls = self.observation.get("pending_tool_calls") or []
                if given["pending"] >= len(calls):
                    raise StopCase(f"tool_results: pending call {given['pending']} is not among {brief(calls)}")
                result["runtime_tool_call_id"] = calls[given["pending"]]["runtime_tool_call_id"]
                self.call_ids[given.get("as", "")] = result["runtime_tool_call_id"]
            else:
                result["runtime_tool_call_id"] = self.call_ids.get(given["call"], given["call"])
            results.append(result)
        body = {"results": results} | picked(step, "yield_time_ms") | ({"cell_id": self.cell(step["cell"])} if "cell" in step else {})
        path = f"/v1/sessions/{await self.session(step.get('session', 'main'))}/tool_results"
        answer = await self.request("POST", path, body, patience_ms=patience_of(step))
        self.remember(answer, step)
        return answer
