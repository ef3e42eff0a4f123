"""How much of the connections one tenant may hold, so that none shuts out the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from codemode.errors import TooManyFollowers

_OF_FOLLOWERS: Final = 4  # a quarter of the connections
_OF_REQUESTS: Final = 2  # a half


class Shares:
    """Counts what each tenant holds of so many `connections`; without a number only its event streams are bounded.

    A tenant has at most `most_followers` event streams open, and no more than a quarter of the connections for them.
    All requests of a tenant that are being answered together hold half of the connections at most: calls that wait
    go on for as long as a client likes, and repeats of one exec wait for one cell together.
    """

    def __init__(self, connections: int | None, most_followers: int) -> None:
        self.most_requests = None if connections is None else max(1, connections // _OF_REQUESTS)
        self.most_followers = (
            most_followers if connections is None else max(1, min(most_followers, connections // _OF_FOLLOWERS))
        )
        self._requests: Counter[str] = Counter()
        self._followers: Counter[str] = Counter()

    @contextmanager
    def following(self, tenant: str) -> Iterator[None]:
        """Hold an event stream. Raises TooManyFollowers."""
        if self._followers[tenant] >= self.most_followers:
            raise TooManyFollowers(
                f"the tenant has {self._followers[tenant]} event streams open, as many as it may; close one"
            )
        with _counted(self._followers, tenant):
            yield

    def has_room(self, tenant: str) -> bool:
        """Whether one more request of this tenant may be answered."""
        return self.most_requests is None or self._requests[tenant] < self.most_requests

    @contextmanager
    def asking(self, tenant: str) -> Iterator[None]:
        """Hold a request."""
        with _counted(self._requests, tenant):
            yield


@contextmanager
def _counted(held: Counter[str], tenant: str) -> Iterator[None]:
    held[tenant] += 1
    try:
        yield
    finally:
        held[tenant] -= 1
        if not held[tenant]:
            del held[tenant]
