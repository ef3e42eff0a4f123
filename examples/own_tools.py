"""codemode as a library: tools of your own, a session, exec, wait and terminate.

python -m examples.own_tools
"""

import asyncio
import time

from codemode import CodeMode, Limits, Observation, tool

PRICES = {"apple": 0.4, "bread": 3.2, "cheese": 7.9}


# A plain function becomes a tool. It runs on a thread, so it may block: read a database, call an old library.
@tool
def price_of(article: str) -> float | None:
    """The price of an article, null if it is not sold here."""
    time.sleep(0.05)
    return PRICES.get(article)


# An async function runs in the event loop, so it must not block.
@tool
async def delivery_days(city: str) -> int:
    """How many days a delivery to a city takes."""
    await asyncio.sleep(0.05)
    return 1 if city == "Zurich" else 3


# What a model would write. The calls run in parallel; only what text() hands over comes back.
SHOPPING = """
const basket = ["apple", "bread", "cheese", "unicorn"];
const prices = await Promise.all(basket.map((article) => tools.price_of({article})));
basket.forEach((article, i) => text(`${article}: ${prices[i] ?? "not sold"}`));
text({total: prices.reduce((sum, price) => sum + price, 0), days: await tools.delivery_days({city: "Bern"})});
store("articles", prices.length);
"""

# Scripts of one session share what they store(), and nothing else.
LATER = """
text(`the basket had ${load("articles")} articles`);
for (let i = 1; ; i++) {
  text(`step ${i}`);
  await new Promise((resolve) => setTimeout(resolve, 50));
}
"""


async def main() -> None:
    # Everything the service holds, all processes included, ends with the `async with`.
    async with CodeMode(tools=[price_of, delivery_days], limits=Limits(memory_mb=64)) as service:
        session = service.create_session(limits={"cpu_ms": 5000})  # a session may lower a limit, not raise it

        show(await session.exec(SHOPPING))

        # A script that takes longer than `yield_time_ms` is answered while it runs: a cell, which has an id.
        observation = await session.exec(LATER, yield_time_ms=100)
        show(observation)
        show(await session.wait(observation.cell_id, yield_time_ms=150))
        show(await session.terminate(observation.cell_id))

        # A script that fails raises nothing here: its error is for the model, who can mend it.
        observation = await session.exec("await tools.price_off({article: 'apple'})")
        show(observation)
        assert observation.error is not None
        print(f"kind for your program: {observation.error.kind}, at line {observation.error.line}")


def show(observation: Observation) -> None:
    """`text` is what the model reads; `status`, `output`, `error`, `usage` and so on are for your program."""
    print(f"--- cell {observation.cell_id}: {observation.status}\n{observation.text}\n")


if __name__ == "__main__":
    asyncio.run(main())
