"""Tools of your own for the service:

    codemode serve --tools examples.tools_module:tools

Then any script may call them:

    curl http://127.0.0.1:8000/v1/exec -H 'Content-Type: text/javascript' \
        -d 'text(await tools.convert({amount: 3, unit: "km"}))'

`codemode run FILE.js --tools examples.tools_module:tools` works too.
"""

from dataclasses import dataclass
from datetime import date, timedelta
from typing import Annotated, Literal

from pydantic import Field

from codemode import ToolError, tool

METRES = {"km": 1000.0, "mi": 1609.344, "nmi": 1852.0}


@dataclass
class Length:
    """A result may be any type that pydantic can write as JSON; the script gets a plain object."""

    metres: float
    text: str


# The annotations become the tool's input schema and the docstring its description: the model reads both.
@tool
def convert(amount: Annotated[float, Field(ge=0)], unit: Literal["km", "mi", "nmi"]) -> Length:
    """Convert a length to metres."""
    metres = amount * METRES[unit]
    return Length(metres, f"{amount:g} {unit} are {metres:g} m")


# What comes from a script is checked and converted before the function is called: `start` is a real date here.
@tool
def working_days(start: date, days: Annotated[int, Field(ge=1, le=1000)] = 5) -> list[date]:
    """The next working days from `start` on, Monday to Friday."""
    following = (start + timedelta(days=n) for n in range(2 * days + 2))
    return [day for day in following if day.weekday() < 5][:days]


# Raise ToolError to tell the script what is wrong; of any other exception it learns the type only.
@tool
async def stock(article: str) -> int:
    """How many pieces of an article are there."""
    shelves = {"bolt": 1200, "nut": 800}
    if article not in shelves:
        raise ToolError(f"no article {article!r}; there are {', '.join(shelves)}")
    return shelves[article]


# The name that stands after the colon: one tool, or a list of them.
tools = [convert, working_days, stock]
