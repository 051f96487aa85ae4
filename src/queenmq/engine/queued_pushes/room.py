"""Decides how many pushes may wait in the operation queue."""

from __future__ import annotations

from queenmq.engine.queued_pushes.metrics import OperationMetrics


class OperationRoom:
    """The bounds of the operation queue: of each partition, and of all together."""

    def __init__(self, operations: OperationMetrics, *, all_max: int, partition_max: int) -> None:
        self._operations = operations
        self._all_max = all_max
        self._partition_max = partition_max

    def measure(self) -> int:
        """Return how many operations may wait in a partition now: none more when too many wait in
        all.
        """
        return 0 if self._operations.depth >= self._all_max else self._partition_max
