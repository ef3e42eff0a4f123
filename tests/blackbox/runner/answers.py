"""One answer of the server."""

from __future__ import annotations

import dataclasses
from typing import Any

import httpx


@dataclasses.dataclass
class Answer:
    http_status: int
    headers: httpx.Headers
    text: str
    ms: float
    body: Any = None  # the parsed JSON, None where there is none
    cursor_before: int | None = None  # of that cell, when the request was sent

    @property
    def is_observation(self) -> bool:
        return self.http_status in (200, 202) and isinstance(self.body, dict) and "model_output" in self.body
