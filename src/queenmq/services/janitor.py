"""Removes rows that nothing needs any more and nothing else removes."""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

#: How long completed operations can be queried and committed transactions are recognised.
_KEEP_S = 3_600
#: A Spark batch that was not published within this time never will be.
_KEEP_STAGED_S = 86_400
#: Rows removed by one statement.
_ROWS = 5_000


class LeaseSweeper(Protocol):
    """The store of leases."""

    async def sweep_lease_partitions(self, *, after: UUID, limit: int) -> UUID | None: ...


class OperationSweeper(Protocol):
    """The store of operations."""

    async def sweep(self, *, older_than_s: int, limit: int) -> int: ...


class StageSweeper(Protocol):
    """The store of rows that Spark stages."""

    async def sweep_staged(self, *, older_than_s: int, limit: int) -> int: ...


class TraceSweeper(Protocol):
    """The store of traces."""

    async def sweep_traces(self, *, older_than_s: int, limit: int) -> int: ...


class TransactionSweeper(Protocol):
    """The store of committed transactions."""

    async def sweep_transactions(self, *, older_than_s: int, limit: int) -> int: ...


class KeySweeper(Protocol):
    """The store of idempotency keys."""

    async def sweep_push_keys(self, *, older_than_s: int, limit: int) -> int: ...


class HistorySweeper(Protocol):
    """The store of the history of acks."""

    async def sweep_ack_history(self, *, older_than_s: int, limit: int) -> int: ...


class TokenSweeper(Protocol):
    """The store of tokens and sessions."""

    async def sweep_tokens(self, *, limit: int) -> int: ...


class AuditSweeper(Protocol):
    """The store of the audit log."""

    async def sweep_audit(self, *, older_than_s: int, limit: int) -> int: ...


class AccessSweep:
    """Removes ended sessions, tokens that ended long ago, and old audit entries."""

    name = "access-sweep"
    interval_s = 300.0

    def __init__(self, tokens: TokenSweeper, audit: AuditSweeper, *, audit_keep_s: int) -> None:
        self._tokens = tokens
        self._audit = audit
        self._audit_keep_s = audit_keep_s

    async def run_once(self) -> None:
        while await self._tokens.sweep_tokens(limit=_ROWS) == _ROWS:
            pass
        keep_s = self._audit_keep_s
        while await self._audit.sweep_audit(older_than_s=keep_s, limit=_ROWS) == _ROWS:
            pass


class LeaseSweep:
    """Removes the partitions of leases soon after they end. There may be hundreds a second."""

    name = "lease-sweep"
    interval_s = 15.0

    def __init__(self, leases: LeaseSweeper) -> None:
        self._leases = leases

    async def run_once(self) -> None:
        after: UUID | None = UUID(int=0)
        while after is not None:
            after = await self._leases.sweep_lease_partitions(after=after, limit=_ROWS)


class KeySweep:
    """Removes old idempotency keys of pushes. There may be thousands a second."""

    name = "key-sweep"
    interval_s = 30.0

    def __init__(self, keys: KeySweeper, *, keep_s: int) -> None:
        self._keys = keys
        self._keep_s = keep_s

    async def run_once(self) -> None:
        while await self._keys.sweep_push_keys(older_than_s=self._keep_s, limit=_ROWS) == _ROWS:
            pass


class Janitor:
    """Removes operations and transactions that ended an hour ago, rows staged a day ago, old traces
    and history.
    """

    name = "janitor"
    interval_s = 300.0

    def __init__(
        self,
        operations: OperationSweeper,
        stages: StageSweeper,
        traces: TraceSweeper,
        history: HistorySweeper,
        transactions: TransactionSweeper,
        *,
        trace_keep_s: int,
        history_keep_s: int,
    ) -> None:
        self._operations = operations
        self._stages = stages
        self._traces = traces
        self._trace_keep_s = trace_keep_s
        self._history = history
        self._transactions = transactions
        self._history_keep_s = history_keep_s

    async def run_once(self) -> None:
        while await self._operations.sweep(older_than_s=_KEEP_S, limit=_ROWS) == _ROWS:
            pass
        while await self._stages.sweep_staged(older_than_s=_KEEP_STAGED_S, limit=_ROWS) == _ROWS:
            pass
        while (
            await self._transactions.sweep_transactions(older_than_s=_KEEP_S, limit=_ROWS) == _ROWS
        ):
            pass
        keep_s = self._trace_keep_s
        while await self._traces.sweep_traces(older_than_s=keep_s, limit=_ROWS) == _ROWS:
            pass
        keep_s = self._history_keep_s
        while await self._history.sweep_ack_history(older_than_s=keep_s, limit=_ROWS) == _ROWS:
            pass
