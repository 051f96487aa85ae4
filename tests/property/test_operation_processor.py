"""Laws of running operations: each is stored once and in order, whatever fails on the way."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from uuid import UUID

import hypothesis.strategies as st
from hypothesis import given

from queenmq.errors import (
    ClaimLost,
    PartitionBusy,
    QueenError,
    StorageRejected,
    StorageUnavailable,
    TransactionRefused,
)
from tests.support.operation_lines import OperationLines, make_lines, make_processor

#: What happens in a run: nothing, an error before or after it, or another takes the first over.
_EVENTS = st.sampled_from(["fine", "busy", "full", "gone", "in doubt", "taken over", "lost"])
_ERRORS: dict[str, QueenError] = {
    "busy": PartitionBusy("held"),
    "full": TransactionRefused("full"),
    "gone": StorageUnavailable("gone"),
    "lost": ClaimLost("lost"),
}


class _Script:
    """Breaks runs as told, and some operations for their first runs alone."""

    def __init__(self, lines: OperationLines, events: list[str], wrong: dict[int, int]) -> None:
        self.lines, self.events, self.wrong = lines, events, wrong
        self.event = "fine"

    def before(self, ids: Sequence[UUID]) -> QueenError | None:
        self.event = self.events.pop() if self.events else "fine"
        if self.event == "taken over":
            # The other one gives up at once.
            first = next(one for one in self.lines.operations if one.id == ids[0])
            first.status, first.token = "pending", None
        if self.event in _ERRORS:
            return _ERRORS[self.event]
        bad = [one.int for one in ids if self.wrong.get(one.int, 0) > 0]
        if bad and len(ids) == 1:
            self.wrong[bad[0]] -= 1
        return StorageRejected("wrong") if bad else None

    def after(self, ids: Sequence[UUID]) -> QueenError | None:
        return StorageUnavailable("gone", is_in_doubt=True) if self.event == "in doubt" else None


@given(
    lengths=st.lists(st.integers(1, 7), min_size=1, max_size=5),
    events=st.lists(_EVENTS, max_size=30),
    wrong=st.dictionaries(st.integers(1, 35), st.integers(1, 2), max_size=6),
)
def test_each_operation_is_stored_once_and_in_order(
    lengths: list[int], events: list[str], wrong: dict[int, int]
) -> None:
    lines = make_lines(*lengths)
    script = _Script(lines, events, wrong)
    lines.before, lines.after = script.before, script.after

    async def run() -> None:
        processor = make_processor(lines)
        for _ in range(200):
            with contextlib.suppress(StorageUnavailable):
                await processor.run_once()

    asyncio.run(run())
    assert {one.status for one in lines.operations} == {"completed"}
    assert len(lines.stored) == len(set(lines.stored)) == sum(lengths)
    places = {one.id: one.partition for one in lines.operations}
    for partition in range(len(lengths)):
        found = [one for one in lines.stored if places[one] == partition]
        assert found == [one.id for one in lines.line(partition)]
