"""Decides which queues and transactions the next commit of an archive covers. Pure.

Each queue has its own position, so that it is archived once whichever queues it is archived with.
One batch has one range of transactions; queues whose positions differ are brought together first,
the ones furthest behind before the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID


@dataclass(frozen=True)
class Waiting:
    """A queue that has messages to archive."""

    #: All of its messages of transactions below are in the lake.
    position: int
    #: The first transaction from there on that has messages.
    first: int


@dataclass(frozen=True)
class Batch:
    """Queues none of whose messages in a range of transactions are in the lake."""

    queues: tuple[UUID, ...]
    start: int
    #: Not included. A batch may end earlier.
    end: int


def next_batch(waiting: Mapping[UUID, Waiting], horizon: int) -> Batch | None:
    """Return the batch that is furthest behind. None means: nothing waits below the horizon."""
    if not waiting:
        return None
    start = min(queue.first for queue in waiting.values())
    queues = tuple(sorted(key for key, queue in waiting.items() if queue.position <= start))
    later = [queue.position for queue in waiting.values() if queue.position > start]
    return Batch(queues, start, min([horizon, *later]))
