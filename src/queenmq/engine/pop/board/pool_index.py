"""Finds pools by what a pop, a push or an ack knows. Pure: no clock, no I/O."""

from __future__ import annotations

from collections.abc import Iterator

from queenmq.engine.pop.board.pool import Pool
from queenmq.engine.requests import PartitionKey, Scope


class PoolIndex:
    """All pools of a broker, indexed by the facts that a push or an ack has."""

    def __init__(self) -> None:
        self._pools: dict[tuple[Scope, str], Pool] = {}
        self._by_queue: dict[str, dict[Pool, None]] = {}
        self._by_partition: dict[PartitionKey, dict[Pool, None]] = {}
        self._by_filter: dict[Pool, None] = {}

    def __iter__(self) -> Iterator[Pool]:
        return iter(list(self._pools.values()))

    def __len__(self) -> int:
        return len(self._pools)

    def get_or_add(self, scope: Scope, consumer_group: str) -> Pool:
        """Return the pool of a scope and group."""
        pool = self._pools.get((scope, consumer_group))
        if pool is None:
            pool = self._pools[scope, consumer_group] = Pool(scope, consumer_group)
            self._home(pool)[pool] = None
        return pool

    def remove(self, pool: Pool) -> None:
        """Forget a pool without waiting pops."""
        del self._pools[pool.key]
        home = self._home(pool)
        del home[pool]
        scope = pool.scope
        if not home and scope.queue is not None:
            if scope.partition is None:
                del self._by_queue[scope.queue]
            else:
                del self._by_partition[scope.partition_key]

    def remove_idle(self) -> None:
        """Forget the pools that are not in use."""
        for pool in self:
            if not (pool.waiting_count or pool.claims or pool.reads):
                self.remove(pool)

    def _home(self, pool: Pool) -> dict[Pool, None]:
        scope = pool.scope
        if scope.queue is None:
            return self._by_filter
        if scope.partition is None:
            return self._by_queue.setdefault(scope.queue, {})
        return self._by_partition.setdefault(scope.partition_key, {})

    def touched_by(self, key: PartitionKey, *, namespace: str, task: str) -> Iterator[Pool]:
        """Yield the pools that may serve this partition, those that name it first."""
        yield from self._by_partition.get(key, ())
        yield from self._by_queue.get(key.queue, ())
        for pool in self._by_filter:
            scope = pool.scope
            if scope.namespace in (None, namespace) and scope.task in (None, task):
                yield pool

    def of_queue(self, queue: str) -> Iterator[Pool]:
        """Yield the pools that look at this queue or at one of its partitions by name, or by a
        filter.
        """
        yield from self._by_queue.get(queue, ())
        for key, pools in self._by_partition.items():
            if key.queue == queue:
                yield from pools
        yield from self._by_filter
