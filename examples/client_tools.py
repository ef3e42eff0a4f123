"""An agent loop over HTTP that fulfils tool calls itself: they are handed out, and their results posted back.

codemode serve --port 8000                              in one terminal
python -m examples.client_tools http://127.0.0.1:8000   in another one
"""

import sys
from typing import Any

import httpx

# What the session declares. Without a handler, the one who made the session fulfils the calls.
TOOLS = [
    {
        "name": "get_weather",
        "description": "The weather of a city.",
        "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    }
]
WEATHER = {"Bern": {"celsius": 11}, "Oslo": {"celsius": -4}, "Cairo": {"celsius": 29}}

# What a model would write.
SCRIPT = """
const cities = ["Bern", "Oslo", "Atlantis", "Cairo"];
const answers = await Promise.allSettled(cities.map((city) => tools.get_weather({city})));
answers.forEach(({value, reason}, i) => text(`${cities[i]}: ${value ? `${value.celsius} degrees` : reason.message}`));
"""


def main(url: str) -> None:
    with httpx.Client(base_url=url, timeout=60) as client:
        session = f"/v1/sessions/{answer_of(client.post('/v1/sessions', json={'tools': TOOLS}))['session_id']}"
        try:
            observation = answer_of(client.post(f"{session}/exec", json={"source": SCRIPT}))
            show(observation)
            while observation["status"] == "running":
                observation = go_on(client, session, observation)
                show(observation)
        finally:
            client.delete(session)  # ends its cells, and forgets it


def go_on(client: httpx.Client, session: str, observation: dict[str, Any]) -> dict[str, Any]:
    """Answer the calls that the script waits for, or wait with it."""
    cell_id = observation["cell_id"]
    calls = observation["pending_tool_calls"]
    if not calls:
        return answer_of(client.post(f"{session}/wait", json={"cell_id": cell_id}))
    print(f"{len(calls)} calls to fulfil")
    # With `cell_id` the answer is the next observation of that cell: one request for each round.
    results = {"results": [result_of(call) for call in calls], "cell_id": cell_id}
    return answer_of(client.post(f"{session}/tool_results", json=results))


def result_of(call: dict[str, Any]) -> dict[str, Any]:
    """Here your program does the work; `output` may be any JSON. An `error` rejects the script's promise."""
    ids = {"cell_id": call["cell_id"], "runtime_tool_call_id": call["runtime_tool_call_id"]}
    city = call["input"]["city"]
    return {**ids, "output": WEATHER[city]} if city in WEATHER else {**ids, "error": f"no city {city}"}


def answer_of(response: httpx.Response) -> dict[str, Any]:
    """A failed script is an answer too; an HTTP error says that the request was wrong, and why."""
    if response.is_error:
        sys.exit(f"HTTP {response.status_code}: {response.text}")
    answer: dict[str, Any] = response.json()
    return answer


def show(observation: dict[str, Any]) -> None:
    """What a model would be shown."""
    print("\n".join(item["text"] for item in observation["model_output"]), end="\n\n")


if __name__ == "__main__":
    address = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8000"
    try:
        main(address)
    except httpx.TransportError as problem:
        sys.exit(f"client_tools: no answer from {address} ({problem}); start a service: codemode serve --port 8000")
