"""Consumer groups as they ought to be: what each has before it, counted message by message.

Knows nothing of snapshots, horizons or lookup rows: a start is what was committed when the group
subscribed, or a time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

#: The default group, which never has a start.
QUEUE_MODE = "__QUEUE_MODE__"
_NEXT = timedelta(microseconds=1)


@dataclass
class Message:
    """One message; its number is its place in the partition."""

    created_at: datetime
    data: int
    is_kept: bool = True


@dataclass
class Start:
    """A time, or how many messages each partition had."""

    time: datetime | None = None
    passed: dict[str, int] = field(default_factory=dict)


@dataclass
class Group:
    """The remembered state of a group on the queue."""

    cursors: dict[str, int] = field(default_factory=dict)
    #: By partition; the empty name is the whole queue.
    starts: dict[str, Start] = field(default_factory=dict)

    @property
    def is_known(self) -> bool:
        return bool(self.cursors or self.starts)


class Model:
    """One queue: committed messages by partition, and its groups."""

    def __init__(self) -> None:
        self.partitions: dict[str, list[Message]] = {}
        self.groups: dict[str, Group] = {}

    def group(self, name: str) -> Group:
        return self.groups.setdefault(name, Group())

    def subscribe(self, name: str, partition: str, time: datetime | None) -> None:
        """The first start stays; a partition has one beside its queue's only if both are times."""
        starts = self.group(name).starts
        if partition in starts:
            return
        if "" in starts and (time is None or starts[""].time is None):
            return
        starts[partition] = self._start(time)

    def position(self, name: str, partition: str) -> int:
        """Return how many messages of a partition the group has passed."""
        group, messages = self.group(name), self.partitions[partition]
        if partition in group.cursors:
            return group.cursors[partition]
        start = group.starts.get(partition) or group.starts.get("")
        if start is None or name == QUEUE_MODE:
            return 0
        if start.time is None:
            return start.passed.get(partition, 0)
        return sum(message.created_at < start.time for message in messages)

    def ahead(self, name: str, partition: str) -> list[Message]:
        """Return the messages of a partition that the group has still to get."""
        messages = self.partitions[partition][self.position(name, partition) :]
        return [message for message in messages if message.is_kept]

    def lags(self) -> dict[tuple[str, str], int]:
        """Return, for every known group, the partitions in which it is behind."""
        found = {
            (name, partition): len(self.ahead(name, partition))
            for name, group in self.groups.items()
            if group.is_known
            for partition in self.partitions
        }
        return {pair: lag for pair, lag in found.items() if lag}

    def pending(self) -> dict[str, int]:
        """Return the messages that not every group has passed. Without groups, all."""
        known = [name for name, group in self.groups.items() if group.is_known]
        kept = {
            name: sum(one.is_kept for one in messages) for name, messages in self.partitions.items()
        }
        if not known:
            return kept
        return {
            partition: max(len(self.ahead(name, partition)) for name in known)
            for partition in self.partitions
        }

    def pop(self, name: str, partition: str, count: int) -> list[int]:
        """Take messages and pass them."""
        group, taken = self.group(name), self.ahead(name, partition)[:count]
        messages = self.partitions[partition]
        place = self.position(name, partition)
        if taken:
            place = next(n for n, one in enumerate(messages, 1) if one is taken[-1])
        group.cursors[partition] = place
        return [one.data for one in taken]

    def seek(self, name: str, time: datetime | None) -> None:
        """Move the group wherever it has a cursor or a start."""
        group = self.group(name)
        after = time + _NEXT if time is not None else None
        for partition in group.cursors:
            messages = self.partitions[partition]
            group.cursors[partition] = (
                len(messages) if after is None else sum(one.created_at < after for one in messages)
            )
        for partition in group.starts:
            group.starts[partition] = self._start(after)

    def seek_partition(self, name: str, partition: str) -> None:
        """Move the group to the end of a partition, if it has a cursor or a start there."""
        group = self.group(name)
        if partition in group.cursors or {partition, ""} & set(group.starts):
            group.cursors[partition] = len(self.partitions[partition])

    def _start(self, time: datetime | None) -> Start:
        return Start(time, {name: len(messages) for name, messages in self.partitions.items()})
