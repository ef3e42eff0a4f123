"""Asks the hooks about a use of a tool, one after the other, and tells them how it went."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

import anyio.to_thread
import httpx

from codemode.calls.contained import Raised, contained
from codemode.calls.hook_answers import NOTHING, WAIT_FIELD, Decision, HookFailed, post_answer, pre_answer
from codemode.calls.hooks import Hook
from codemode.calls.slots import ToolThreads
from codemode.errors import ToolError
from codemode.tools.encoding import NotJson, decode, encode
from codemode.tools.http import HttpTools

_log = logging.getLogger(__name__)
_warned: dict[str, float] = {}  # hooks by their place → when
_QUIET_S: Final = 10.0
_MOST_WARNED: Final = 1000

_MOST_ANSWER: Final = 1024 * 1024  # bytes of an answer, beside what it may bring of an input or a result
NOT_BOOLEAN: Final = f"hook returned non-boolean field '{WAIT_FIELD}'"


class Use(NamedTuple):
    """A use of a tool as hooks are told of it: `told` is all but the event, input, result and status."""

    told: Mapping[str, Any]
    text: bytes  # the input, as JSON
    fault: Callable[[bytes, Any], str | None]  # what is wrong with an input that a hook wrote
    is_command: bool
    is_freeform: bool


@dataclass(frozen=True, slots=True)
class HookRunner:
    """Runs hooks. `most_bytes` is how long an input or a result may be."""

    http: HttpTools
    threads: ToolThreads
    most_bytes: int

    async def before(self, hooks: Sequence[Hook], use: Use) -> Decision:
        """Ask them in order; one denial is enough, and the later ones see what the earlier ones made of the input."""
        text, asks, waits = use.text, [], False
        for hook in hooks:
            try:
                answer = pre_answer(await self._ask(hook, {**use.told, "tool_input": _Json(text)}))
                if answer.decision == "deny":
                    reason = f"denied by a hook: {answer.reason}" if answer.reason else "denied by a hook"
                    return Decision(reason, (), text)
                if answer.decision == "ask":
                    asks.append(answer.reason or "a hook asks")
                if answer.updated_input is not NOTHING:
                    text, wanted = _updated(use, answer.updated_input)
                    waits = waits if wanted is None else wanted
            except HookFailed as problem:
                said = str(problem)
                _warn(hook, use, problem)
                return Decision(said if said == NOT_BOOLEAN else f"denied, because a hook failed: {said}", (), text)
        return Decision(None, tuple(asks), text, waits)

    async def after(self, hooks: Sequence[Hook], use: Use, response: Any, status: Mapping[str, Any]) -> Any:
        """Tell them in order; what the last of those that changed it made of the result, or NOTHING.

        Each is told, also when an earlier one has failed; raises HookFailed then, at the end.
        """
        updated, failed = NOTHING, None
        for hook in hooks:
            shown = response if updated is NOTHING else updated
            told = {**use.told, "tool_input": _Json(use.text), "tool_response": shown, "tool_status": status}
            try:
                answer = post_answer(await self._ask(hook, told))
                updated = updated if answer is NOTHING else _plain(answer)
            except HookFailed as problem:
                _warn(hook, use, problem)
                failed = failed or problem
        if failed is not None:
            raise failed
        return updated

    async def _ask(self, hook: Hook, told: dict[str, Any]) -> Any:
        payload = {"hook_event_name": hook.event, **told}
        if hook.payload == "minimal":
            payload = {name: value for name, value in payload.items() if name not in ("tool_input", "tool_response")}
        try:
            async with asyncio.timeout(hook.timeout_ms / 1000):
                return await self._run(hook, payload)
        except HookFailed:
            raise
        except TimeoutError:
            raise HookFailed(f"it did not answer within {hook.timeout_ms} ms") from None
        except NotJson:
            raise HookFailed("it answered with what is no JSON") from None
        except ToolError as problem:
            raise HookFailed(str(problem)) from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as problem:
            raise HookFailed(f"it could not be called ({type(problem).__name__})") from None
        except BaseException as problem:  # sys.exit() in a hook is a failure of that hook
            task = asyncio.current_task()
            if isinstance(problem, asyncio.CancelledError) and (task is None or task.cancelling()):
                raise
            _log.info("a hook failed", exc_info=True)
            name = str(problem) if isinstance(problem, Raised) else type(problem).__name__
            raise HookFailed(f"it failed with {name}") from None

    async def _run(self, hook: Hook, payload: dict[str, Any]) -> Any:
        plain = {name: value.value if isinstance(value, _Json) else value for name, value in payload.items()}
        if hook.function is not None:
            answer = await self._call(hook, plain)
            return {} if answer is None else answer
        body = encode(plain)
        most = _MOST_ANSWER + 2 * self.most_bytes
        if hook.url is not None:
            status, text = await self.http.post(hook.url, body, hook.timeout_ms, most)
            if status != 200:
                raise HookFailed(f"it answered with HTTP status {status}")
            return decode(text)
        assert hook.command is not None
        return decode(await _command(hook.command, body, most))

    async def _call(self, hook: Hook, payload: dict[str, Any]) -> Any:
        assert hook.function is not None
        own = decode(encode(payload))  # whatever it does to it, nobody else sees
        if asyncio.iscoroutinefunction(hook.function):
            return await hook.function(own)
        work = partial(contained, hook.function, own)
        answer = await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=self.threads.hooks)
        return await answer if inspect.isawaitable(answer) else answer


def _warn(hook: Hook, use: Use, problem: HookFailed) -> None:
    """Let the operator know which hook does not work; once in a while, for scripts call tools as often as they like."""
    now = time.monotonic()
    if now - _warned.get(hook.place, -_QUIET_S) >= _QUIET_S:
        if len(_warned) > _MOST_WARNED:
            _warned.clear()
        _warned[hook.place] = now
        _log.warning("%s hook %s: %s (tool %s)", hook.event, hook.place, problem, use.told["tool_name"])


class _Json(NamedTuple):
    """JSON that is read when a hook wants it."""

    text: bytes

    @property
    def value(self) -> Any:
        return decode(self.text) if self.text else None


def _updated(use: Use, wanted: Any) -> tuple[bytes, bool | None]:
    """The input that a hook wants, and whether the answer is to wait for the end. Raises HookFailed."""
    waits = None
    if use.is_freeform and not isinstance(wanted, str):
        raise HookFailed("its updatedInput is no text, which the tool takes")
    if not use.is_freeform and not isinstance(wanted, Mapping):
        raise HookFailed("its updatedInput is no object")
    if use.is_command and isinstance(wanted, Mapping) and WAIT_FIELD in wanted:
        waits = wanted[WAIT_FIELD]
        if not isinstance(waits, bool):
            raise HookFailed(NOT_BOOLEAN)
        wanted = {name: value for name, value in wanted.items() if name != WAIT_FIELD}
    try:
        text = encode(wanted)
        fault = use.fault(text, decode(text))
    except NotJson as problem:
        raise HookFailed(f"its updatedInput is no JSON: {problem}") from None
    if fault is not None:
        raise HookFailed(f"its updatedInput does not fit: {fault}")
    return text, waits


def _plain(output: Any) -> Any:
    """The output that a hook wants, as JSON says it. Raises HookFailed."""
    try:
        return decode(encode(output))
    except NotJson as problem:
        raise HookFailed(f"its updatedOutput is no JSON: {problem}") from None


async def _command(command: Sequence[str], body: bytes, most_bytes: int) -> bytes:
    """What a program says to a payload. It, and what it has started, is killed if nobody waits for it any more."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        said = await _talk(process, body, most_bytes)
        status = await process.wait()
    except BaseException:
        _kill(process.pid)
        process._transport.close()  # type: ignore[attr-defined]  # else its pipe stays open until it is collected
        raise
    if status != 0:
        raise HookFailed(f"its command ended with status {status}")
    return said


async def _talk(process: asyncio.subprocess.Process, body: bytes, most_bytes: int) -> bytes:
    assert process.stdin is not None
    assert process.stdout is not None
    writing = asyncio.ensure_future(_write(process.stdin, body))
    try:
        said = bytearray()
        while part := await process.stdout.read(65536):
            said += part
            if len(said) > most_bytes:
                raise HookFailed("its answer is too long")
        return bytes(said)
    finally:
        writing.cancel()


async def _write(pipe: asyncio.StreamWriter, body: bytes) -> None:
    try:
        pipe.write(body)
        await pipe.drain()
        pipe.close()
    except (OSError, ConnectionError):
        pass  # it may answer without having read


def _kill(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
