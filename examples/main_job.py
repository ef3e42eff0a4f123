"""The main job of codemode, over HTTP as an agent backend would do it: `scripts/run` runs this.

It starts the service with this project's own files as the workspace, sends a script that reads many
of them in one go, then one that takes long, waits for it twice, and ends it. Everything below a
heading is what a model would be shown. The exit status is 0 if all went as expected.
"""

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parent
PATIENCE = 20  # seconds for the service to start, or to stop


class Unexpected(Exception):
    """Something did not go as it should."""


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the service never outlives us
    print("codemode runs a model's JavaScript in an isolate of its own; all it can do beyond that is call tools.")
    try:
        with service() as url, httpx.Client(base_url=url, timeout=30) as client:
            wait_until_ready(client)
            survey(client)
            countdown(client)
    except (Unexpected, httpx.HTTPError, OSError) as problem:
        print(f"main_job: {problem}", file=sys.stderr)
        return 1
    print("\nAll went as expected; the service has stopped.")
    return 0


# The two things a model does


def survey(client: httpx.Client) -> None:
    """One script does the work of a dozen tool calls; only its short answer reaches the model."""
    told("A model sends this script, which may call read_file, list_dir and search_files:", "survey.js")
    answer = client.post("/v1/exec", json={"source": source("survey.js")})
    observation = shown("exec survey.js: many files in one step", answer, 200, "completed")
    calls = observation["tool_calls"]["completed"]
    print(f"({calls} nested calls, none of which took a turn of the model)")
    expect(calls >= 12, f"survey.js made {calls} nested calls; at least 12 were expected")


def countdown(client: httpx.Client) -> None:
    """A script that runs on is a cell: wait for it as often as you like, or end it."""
    told("And this one, which takes longer than anybody waits:", "countdown.js")
    wanted = {"source": source("countdown.js"), "yield_time_ms": 400}
    answer = client.post("/v1/exec", json=wanted)
    cell_id = shown("exec countdown.js, answered after 0.4 seconds", answer, 202, "running")["cell_id"]
    for number in ("first", "second"):
        answer = client.post("/v1/wait", json={"cell_id": cell_id, "yield_time_ms": 600})
        observation = shown(f"the {number} wait: what came since", answer, 202, "running")
        expect(bool(observation["output"]), "a wait of 0.6 seconds brought no output")
    answer = client.post("/v1/wait", json={"cell_id": cell_id, "terminate": True})
    shown("wait with terminate: ended long before its end", answer, 200, "terminated")


def told(what: str, name: str) -> None:
    """Print a script as the model wrote it."""
    print(f"\n{what}\n")
    print("\n".join(f"    {line}".rstrip() for line in source(name).strip().splitlines()))


def shown(heading: str, answer: httpx.Response, http_status: int, status: str) -> dict[str, Any]:
    """Print what a model is shown of an answer, and check how it ended."""
    print(f"\n--- {heading}")
    expect(
        answer.status_code == http_status, f"HTTP {answer.status_code} instead of {http_status}: {answer.text[:500]}"
    )
    observation: dict[str, Any] = answer.json()
    for item in observation["model_output"]:
        print(item["text"].rstrip("\n"))
    expect(observation["status"] == status, f"the script is {observation['status']}, not {status}")
    return observation


def source(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


# The service


@contextmanager
def service() -> Iterator[str]:
    """The service on a free port, its URL given; stopped at the end."""
    command = [sys.executable, "-m", "codemode", "serve", "--port", "0", "--workspace", str(PROJECT)]
    process = subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        line = first_line(process.stdout.fileno())
        print(line)
        url = line.rpartition(" on ")[2]
        expect(url.startswith("http://"), f"no URL in the first line of the service: {line!r}")
        yield url
        process.send_signal(signal.SIGTERM)
        status = process.wait(PATIENCE)
        expect(status == 0, f"the service ended with status {status} instead of 0")
    except subprocess.TimeoutExpired:
        raise Unexpected(f"the service did not stop within {PATIENCE} seconds of SIGTERM") from None
    finally:
        process.kill()
        process.wait()


def first_line(output: int) -> str:
    """The line that says where the service listens."""
    data = b""
    deadline = time.monotonic() + PATIENCE
    with selectors.DefaultSelector() as selector:
        selector.register(output, selectors.EVENT_READ)
        while b"\n" not in data:
            if not selector.select(max(0.0, deadline - time.monotonic())):
                raise Unexpected(f"the service said nothing for {PATIENCE} seconds")
            chunk = os.read(output, 4096)
            expect(bool(chunk), "the service ended before it said where it listens")
            data += chunk
    return data.partition(b"\n")[0].decode()


def wait_until_ready(client: httpx.Client) -> None:
    """Until scripts can be run; connections wait by themselves until the service takes them."""
    deadline = time.monotonic() + PATIENCE
    while (answer := client.get("/readyz")).status_code != 200:
        expect(time.monotonic() < deadline, f"the service is not ready after {PATIENCE} seconds: {answer.text}")
        time.sleep(0.1)


def expect(fact: bool, otherwise: str) -> None:
    if not fact:
        raise Unexpected(otherwise)


if __name__ == "__main__":
    sys.exit(main())
