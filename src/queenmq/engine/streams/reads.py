"""Joins reads of state into few calls. If a call fails, each read is retried alone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from queenmq.engine.calls.batcher import Batcher
from queenmq.engine.calls.dispatcher import Dispatcher
from queenmq.engine.calls.entry import Answerable
from queenmq.engine.streams.ports import CycleStore
from queenmq.engine.streams.requests import StateAsk, StateRows
from queenmq.errors import Overloaded, QueenError

_CALLS_MAX = 2
#: Reads of one call; keys count as well.
_WEIGHT_MAX = 500
_WAITING_MAX = 10_000


class ReadEntry(Answerable[StateRows]):
    """One read on its way through a call. Reads exclude nothing, so it has no keys."""

    __slots__ = ("ask", "keys", "weight")

    def __init__(self, ask: StateAsk) -> None:
        self.ask = ask
        self.keys: tuple[()] = ()
        self.weight = 1 + len(ask.keys or ())
        self.future = asyncio.get_running_loop().create_future()


class StateReads:
    """The read path of stream state."""

    def __init__(self, store: CycleStore) -> None:
        self._store = store
        self._dispatcher: Dispatcher[ReadEntry] = Dispatcher(
            "state", Batcher(calls_max=_CALLS_MAX, weight_max=_WEIGHT_MAX), self._run, _fail
        )

    def read(self, ask: StateAsk) -> asyncio.Future[StateRows]:
        """Read state of a query in a partition."""
        if (depth := self._dispatcher.depth) >= _WAITING_MAX:
            raise Overloaded(
                f"{depth} reads of state are already waiting; try again",
                depth=depth,
                bound="state_reads",
            )
        entry = ReadEntry(ask)
        self._dispatcher.add(entry)
        return entry.future

    async def drain(self) -> None:
        """Wait until every read has its answer."""
        await self._dispatcher.drain()

    async def _run(self, entries: list[ReadEntry]) -> None:
        try:
            rows = await self._store.read_states([entry.ask for entry in entries])
        except QueenError as error:
            await self._run_apart(entries, error)
        else:
            for entry, row in zip(entries, rows, strict=True):
                entry.answer(row)

    async def _run_apart(self, entries: list[ReadEntry], error: QueenError) -> None:
        """Retry the reads one by one: the state of one may be too large for any answer."""
        if len(entries) == 1:
            entries[0].fail(error)
            return
        for entry in entries:
            await self._run([entry])


def _fail(entries: Sequence[ReadEntry], error: QueenError) -> None:
    for entry in entries:
        entry.fail(error)
