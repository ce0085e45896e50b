"""The counting semaphores of a core: tokens with the time they landed and what they tell their taker."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from dsalang._backend.isa.table import Engine

from .races import NOTHING, Clock


@dataclass(frozen=True, slots=True)
class Token:
    """One count of a semaphore. `setter` and `template` are None and -1 for initial credits."""

    time: int
    clock: Clock
    setter: Engine | None
    template: int


class Semaphores:
    """Tokens per semaphore, first in, first out, and sets that take effect in the future."""

    def __init__(self, count: int, credits: Sequence[int]) -> None:
        self._tokens: list[deque[Token]] = [deque() for _ in range(count)]
        self._flying: list[tuple[int, int, int, Token]] = []
        self._sets = 0
        for number, credit in enumerate(credits):
            self._tokens[number].extend(Token(0, NOTHING, None, -1) for _ in range(credit))

    def __len__(self) -> int:
        return len(self._tokens)

    def count(self, number: int) -> int:
        """The semaphore's value now."""
        return len(self._tokens[number])

    def first(self, number: int) -> Token | None:
        """The token that the next wait would take."""
        tokens = self._tokens[number]
        return tokens[0] if tokens else None

    def take(self, number: int) -> Token:
        """Take one; there must be one."""
        return self._tokens[number].popleft()

    def set_at(self, number: int, token: Token) -> None:
        """Add one at `token.time`."""
        self._sets += 1
        heapq.heappush(self._flying, (token.time, self._sets, number, token))

    def next_landing(self) -> int | None:
        """When the next pending set takes effect."""
        return self._flying[0][0] if self._flying else None

    def land(self) -> tuple[int, Token]:
        """Let the next pending set take effect; the semaphore's number and the token."""
        _, _, number, token = heapq.heappop(self._flying)
        self._tokens[number].append(token)
        return number, token
