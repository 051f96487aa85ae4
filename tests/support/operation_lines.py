"""Operations in memory, with a script of what goes wrong: what the processor is tested against."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from queenmq.engine.catalogue import Catalogue
from queenmq.engine.news import News
from queenmq.engine.queued_pushes.metrics import OperationMetrics
from queenmq.engine.queued_pushes.processor import OperationProcessor
from queenmq.engine.requests import ClaimedOperation, PartitionKey, PartitionRef, WaitingOperations
from queenmq.errors import ClaimLost, QueenError
from queenmq.metrics.registry import Registry


@dataclass
class Operation:
    """One row."""

    id: UUID
    partition: int
    token: UUID | None = None
    retry_count: int = 0
    status: str = "pending"

    @property
    def is_blocking(self) -> bool:
        return self.status != "completed"

    def claimed(self) -> ClaimedOperation:
        place, name = UUID(int=self.partition), f"p{self.partition}"
        return ClaimedOperation(self.id, place, "orders", name, self.retry_count, 3, False)


Fault = Callable[[Sequence[UUID]], QueenError | None]


@dataclass
class OperationLines:
    """Implements `queenmq.engine.ports.OperationStore`; `before` and `after` may break a run."""

    operations: list[Operation]
    before: Fault = lambda ids: None
    after: Fault = lambda ids: None
    stored: list[UUID] = field(default_factory=list)
    runs: list[list[UUID]] = field(default_factory=list)
    released: list[list[UUID]] = field(default_factory=list)
    errors: list[str | None] = field(default_factory=list)

    def line(self, partition: int) -> list[Operation]:
        return [one for one in self.operations if one.partition == partition]

    def _held(self, ids: Sequence[UUID], token: UUID) -> list[Operation]:
        return [one for one in self.operations if one.id in ids and one.token == token]

    async def claim(
        self, worker: str, token: UUID, *, partitions_max: int, items_max: int
    ) -> Sequence[ClaimedOperation]:
        taken = []
        for partition in sorted({one.partition for one in self.operations}):
            for one in self.line(partition):
                if not one.is_blocking:
                    continue
                if one.status != "pending":
                    break
                one.status, one.token = "processing", token
                taken.append(one.claimed())
        return taken

    async def run(self, ids: Sequence[UUID], token: UUID, *, lock_timeout_ms: int) -> int:
        self.runs.append(list(ids))
        if (error := self.before(ids)) is not None:
            raise error
        held = self._held(ids, token)
        if len(held) != len(ids):
            raise ClaimLost("the claim was lost")
        for one in held:
            one.status, one.token = "completed", None
            self.stored.append(one.id)
        if (error := self.after(ids)) is not None:
            raise error
        return len(ids)

    async def release(
        self,
        ids: Sequence[UUID],
        token: UUID,
        *,
        failed_id: UUID | None = None,
        error: str | None = None,
        is_counted: bool = False,
        delay_ms: int = 0,
    ) -> None:
        self.released.append(list(ids))
        self.errors.append(error)
        for one in self._held(ids, token):
            one.status, one.token = "pending", None
            if one.id == failed_id and is_counted:
                one.retry_count += 1
                one.status = "failed" if one.retry_count >= 3 else "pending"

    async def find_partitions(
        self, keys: Sequence[PartitionKey], *, limit_ms: int | None = None
    ) -> list[PartitionRef]:
        return [
            PartitionRef(
                key=key,
                partition_id=UUID(int=int(key.partition[1:])),
                id_text=str(UUID(int=int(key.partition[1:]))),
                queue_id=UUID(int=1),
                namespace="",
                task="",
                is_encrypted=False,
            )
            for key in keys
        ]

    async def count_waiting(self) -> WaitingOperations:
        return WaitingOperations(sum(one.is_blocking for one in self.operations), 0.0)


def make_lines(*lengths: int) -> OperationLines:
    """Partitions with so many operations each."""
    ids = iter(range(1, sum(lengths) + 1))
    rows = [
        Operation(UUID(int=next(ids)), partition)
        for partition, length in enumerate(lengths)
        for _ in range(length)
    ]
    return OperationLines(rows)


def make_processor(
    lines: OperationLines, told: list[PartitionKey] | None = None
) -> OperationProcessor:
    """A processor over such lines; `told` is filled with the partitions that got messages."""

    def note(refs: Collection[PartitionRef]) -> None:
        if told is not None:
            told.extend(ref.key for ref in refs)

    news = News()
    news.pushed.declare(note)
    return OperationProcessor(
        lines,
        OperationMetrics(Registry()),
        Catalogue(lines, lock_timeout_ms=100, wait_ms=100),  # type: ignore[arg-type]
        worker="test",
        lock_timeout_ms=100,
        is_engaged=lambda: False,
        news=news,
    )
