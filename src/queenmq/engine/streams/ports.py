"""The store that streams need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol
from uuid import UUID

from queenmq.engine.streams.requests import CycleCall, CycleRow, StateAsk, StateRows


class CycleStore(Protocol):
    """The database calls of cycles. Methods raise the errors of `queenmq.errors` only."""

    async def commit_cycles(
        self, call: CycleCall, *, queue_max: int, lock_timeout_ms: int
    ) -> list[CycleRow]:
        """Commit or refuse each cycle. Return one row per cycle, in order."""

    async def read_states(self, asks: Sequence[StateAsk]) -> list[StateRows]:
        """Read state. Return one result per request, in order."""

    async def find_busy_pairs(self, pairs: Sequence[tuple[UUID, UUID]]) -> set[tuple[UUID, UUID]]:
        """Return the (query, partition) pairs whose row another transaction holds."""

    async def measure_state(self, query_ids: Sequence[UUID]) -> dict[UUID, int]:
        """Return the bytes of state that each query has."""

    async def is_last_cycle(self, query_id: UUID, partition_id: UUID, digest: UUID) -> bool:
        """Return whether the last cycle of the pair was this one."""

    async def note_errors(self, errors: Mapping[UUID, str]) -> None:
        """Remember the last error of each query."""
