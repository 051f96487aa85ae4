"""Publishes events of a broker to the parts that act on them.

A publisher knows no subscriber: push publishes the pushed partitions, and pop and the wake listener
subscribe to that. Subscribers run at once, in the publisher's turn of the event loop, in the order
in which they were declared. None of them may wait. `server/wiring/hearing.py` declares the
subscribers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import Generic, TypeVarTuple
from uuid import UUID

from queenmq.engine.requests import PartitionKey, PartitionRef

logger = logging.getLogger(__name__)

Facts = TypeVarTuple("Facts")


class Topic(Generic[*Facts]):
    """One kind of news. Calling it publishes."""

    __slots__ = ("_hearers", "_name")

    def __init__(self, name: str) -> None:
        self._name = name
        self._hearers: tuple[Callable[[*Facts], None], ...] = ()

    def declare(self, *hearers: Callable[[*Facts], None]) -> None:
        """Set all subscribers, in the order in which they hear. Once: the order has one place."""
        if self._hearers:
            raise RuntimeError(f"the subscribers of {self._name!r} are declared already")
        self._hearers = hearers

    def __call__(self, *facts: *Facts) -> None:
        """Call every subscriber. One that fails keeps none of the others from hearing."""
        for hear in self._hearers:
            try:
                hear(*facts)
            except Exception:
                # A defect of the subscriber. The event of the publisher has still happened.
                logger.exception(
                    "A subscriber to the news %r failed unexpectedly.",
                    self._name,
                    extra={"event": "news_broke", "topic": self._name},
                )


class News:
    """All that one broker publishes to itself."""

    def __init__(self) -> None:
        #: Messages were stored in these partitions by this broker.
        self.pushed: Topic[Collection[PartitionRef]] = Topic("pushed")
        #: A lease has ended, and the partition has more for the group.
        self.freed: Topic[UUID, PartitionKey, str] = Topic("freed")
        #: Leases in this queue were handed back, because their callers have left.
        self.returned: Topic[str] = Topic("returned")
        #: Queues may have messages to deliver that this broker has not pushed: another broker, a
        #: SQL session or an operator was at work. `*` stands for all queues.
        self.pushed_elsewhere: Topic[Collection[str]] = Topic("pushed_elsewhere")
        #: Notifications of other brokers start or stop to arrive.
        self.listening: Topic[bool] = Topic("listening")
        #: A queue was configured or deleted here.
        self.queue_changed: Topic[str] = Topic("queue_changed")
        #: A consumer group was deleted on a queue, here or elsewhere.
        self.group_deleted: Topic[str, str] = Topic("group_deleted")
        #: So many pushes became operations that are run later.
        self.operations_queued: Topic[int] = Topic("operations_queued")
        #: An operator retries pushes that had failed or were set aside.
        self.retried: Topic[()] = Topic("retried")
        #: A push is on disk.
        self.spooled: Topic[()] = Topic("spooled")
        #: The database cannot be used any more, or can be again.
        self.database_down: Topic[()] = Topic("database_down")
        self.database_up: Topic[()] = Topic("database_up")
        #: Maintenance starts or ends: pushes go to disk, pops get nothing, a group gets nothing.
        self.pushes_buffered: Topic[bool] = Topic("pushes_buffered")
        self.pops_paused: Topic[bool] = Topic("pops_paused")
        self.group_paused: Topic[str, bool] = Topic("group_paused")
