"""Decides which waiting requests go into the next database call. Pure: no clock, no I/O.

Natural batching: a call leaves as soon as one of the few call slots is free and takes every request
that has gathered by then. Two calls in flight never share a key (a partition, or a partition and
group), so they never wait for each other's row locks, and requests for one key go out in arrival
order.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Hashable, Iterable
from typing import Generic, Protocol, TypeVar


class Entry(Protocol):
    """A waiting request: the keys it touches and how many rows it adds to a call."""

    @property
    def keys(self) -> Iterable[Hashable]: ...

    @property
    def weight(self) -> int: ...


E = TypeVar("E", bound=Entry)


class Batcher(Generic[E]):
    """Holds requests from arrival until their call has ended."""

    def __init__(self, *, calls_max: int, weight_max: int) -> None:
        #: How many calls may be in flight; may change at any time.
        self.calls_max = calls_max
        self._weight_max = weight_max
        self._waiting: deque[E] = deque()
        self._busy_keys: set[Hashable] = set()
        #: The keys of each call as they were when it left; an entry may be re-aimed meanwhile.
        self._taken: dict[int, set[Hashable]] = {}
        self._taken_count = 0

    def __len__(self) -> int:
        """Return how many requests wait for a call."""
        return len(self._waiting)

    @property
    def first(self) -> E | None:
        """Return the request that has waited longest, or nearly so."""
        return self._waiting[0] if self._waiting else None

    @property
    def calls(self) -> int:
        """Return how many calls are in flight."""
        return len(self._taken)

    @property
    def outstanding(self) -> int:
        """Return how many requests wait or are in calls."""
        return len(self._waiting) + self._taken_count

    @property
    def can_call(self) -> bool:
        """Return whether requests wait and a slot is free. They may still have to wait for keys."""
        return bool(self._waiting) and len(self._taken) < self.calls_max

    def weigh(self, *, requests_max: int) -> int:
        """Return the weight of waiting requests, of so many at most."""
        return sum([entry.weight for entry in itertools.islice(self._waiting, requests_max)])

    def add(self, entry: E) -> None:
        """Note that a request has arrived."""
        self._waiting.append(entry)

    def put_back(self, entries: Iterable[E]) -> None:
        """Put requests back, ahead of all others, because their call must be repeated."""
        self._waiting.extendleft(reversed(list(entries)))

    def waiting_keys(self, *, keys_max: int) -> set[Hashable]:
        """Return about this many keys of waiting requests, without those of calls in flight."""
        keys: set[Hashable] = set()
        for entry in self._waiting:
            keys.update(entry.keys)
            if len(keys) >= keys_max:
                break
        return keys - self._busy_keys

    def take_waiting(self) -> list[E]:
        """Remove and return all waiting requests."""
        waiting = list(self._waiting)
        self._waiting.clear()
        return waiting

    def take(self) -> list[E]:
        """Return the requests of the next call, or none if no slot is free or all must wait.

        A request whose key is in flight also holds back later requests for its keys.
        A request above the weight limit goes alone. It is never split.
        """
        if not self.can_call:
            return []
        batch: list[E] = []
        held_back: list[E] = []
        held_keys: set[Hashable] = set()
        weight = 0
        busy = self._busy_keys
        # Bound the scan: do not walk a long backlog of one busy key for every call.
        scan_left = 4 * self._weight_max
        while self._waiting and scan_left:
            scan_left -= 1
            entry = self._waiting[0]
            if batch and weight + entry.weight > self._weight_max:
                break
            self._waiting.popleft()
            # Sets know the hashes of their keys, which cost a Python call each for a UUID.
            if not (busy.isdisjoint(entry.keys) and held_keys.isdisjoint(entry.keys)):
                held_keys.update(entry.keys)
                held_back.append(entry)
                continue
            batch.append(entry)
            weight += entry.weight
        self.put_back(held_back)
        if batch:
            keys: set[Hashable] = set().union(*[entry.keys for entry in batch])
            self._taken[id(batch)] = keys
            self._taken_count += len(batch)
            busy |= keys
        return batch

    def finish(self, batch: list[E]) -> None:
        """Note that a call has ended: its slot and the keys it left with are free."""
        self._busy_keys -= self._taken.pop(id(batch))
        self._taken_count -= len(batch)
