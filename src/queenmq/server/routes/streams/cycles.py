"""POST /streams/v1/state/get and /streams/v1/cycle: what a running stream sends all the time."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from queenmq import wire
from queenmq.auth.decision import check_verb
from queenmq.auth.identity import Identity, Verb
from queenmq.engine.load.manager import LoadManager
from queenmq.engine.load.pressure import OperationType
from queenmq.engine.streams.requests import CycleItems, CycleOutcome, StateAsk, StateRows
from queenmq.engine.streams.service import CycleService
from queenmq.errors import TransactionRefused
from queenmq.server.auth.reach import Reachable
from queenmq.server.edge.exchange import Exchange
from queenmq.server.metering.traffic import Traffic
from queenmq.server.routes.hot.push import push_answers
from queenmq.server.routes.streams.parsing import to_cycle, to_state_ask
from queenmq.server.routing.spec import OneOf, route
from queenmq.settings import Settings


class CycleRoutes:
    """Both handlers. A logical failure is an answer with `success: false`, not an HTTP error."""

    def __init__(
        self,
        service: CycleService,
        load: LoadManager,
        settings: Settings,
        reachable: Reachable,
        traffic: Traffic,
        *,
        wait_s: Callable[[int], int],
    ) -> None:
        self._reachable = reachable
        self._traffic = traffic
        self._service = service
        self._load = load
        self._settings = settings
        self._wait_s = wait_s

    @route(
        "POST",
        "/streams/v1/state/get",
        OneOf((wire.StateFound, wire.StateMissing)),
        request=wire.StateRequest,
        is_hot=True,
    )
    def read_state(self, exchange: Exchange) -> None:
        """Answer with rows of state, in key order."""
        self._load.admit(OperationType.ACK_BATCH)
        request = wire.decode(exchange.body, wire.StateRequest)
        ask = to_state_ask(request, self._settings)
        if exchange.identity.is_limited:
            exchange.run(self._read_within(exchange, ask))
            return
        exchange.follow(
            self._service.reads.read(ask), lambda found: _answer_rows(exchange, ask, found)
        )

    async def _read_within(self, exchange: Exchange, ask: StateAsk) -> None:
        """Answer a caller that is limited to queues as if all others had no streams."""
        missing = await self._find_missing(exchange.identity, ask.query_id, ask.partition_id)
        if missing is None:
            _answer_rows(exchange, ask, await self._service.reads.read(ask))
        else:
            _answer_missing(exchange, missing)

    async def _find_missing(
        self, identity: Identity, query_id: UUID, partition_id: UUID
    ) -> str | None:
        """Return the error of an unknown id if an id is out of the caller's reach."""
        if not await self._reachable.has_stream(identity, query_id):
            return _unknown_query(query_id)
        if not await self._reachable.has_partition(identity, partition_id):
            return f"Partition {partition_id} does not exist; pop again"
        return None

    @route(
        "POST",
        "/streams/v1/cycle",
        OneOf((wire.CycleCommitted, wire.CycleRefused)),
        request=wire.CycleRequest,
        is_hot=True,
    )
    def commit(self, exchange: Exchange) -> None:
        """Commit a cycle."""
        self._load.admit(OperationType.ACK_BATCH)
        request = wire.decode(exchange.body, wire.CycleRequest)
        if request.push_items:
            check_verb(exchange.identity, Verb.PUSH)
        cycle = to_cycle(exchange.body, request, self._settings, exchange.identity)
        exchange.run(self._commit(exchange, request, cycle))

    async def _commit(
        self, exchange: Exchange, request: wire.CycleRequest, cycle: CycleItems
    ) -> None:
        answer: wire.CycleCommitted | wire.CycleRefused
        missing = await self._find_missing(exchange.identity, cycle.query_id, cycle.partition_id)
        try:
            if missing is not None:
                raise TransactionRefused(missing)
            outcome = await self._service.commit(cycle)
            if request.ack is not None and not outcome.row.is_repeat:
                self._traffic.count_cycle(
                    outcome.row.queue_name or "",
                    request.ack.status or "completed",
                    request.ack.count,
                    is_dead=bool(outcome.row.dlq),
                )
            answer = self._answer_committed(request, cycle, outcome)
        except TransactionRefused as error:
            answer = wire.CycleRefused(False, request.query_id, request.partition_id, str(error))
        exchange.answer(200, wire.encode(answer))

    def _answer_committed(
        self, request: wire.CycleRequest, cycle: CycleItems, outcome: CycleOutcome
    ) -> wire.CycleCommitted:
        row = outcome.row
        acked = None
        if request.ack is not None:
            acked = wire.AckOutcome(
                True, request.ack.count, bool(row.lease_released), bool(row.dlq)
            )
        return wire.CycleCommitted(
            True,
            request.query_id,
            request.partition_id,
            row.queue_name,
            len(cycle.ops),
            push_answers(cycle.pushes, outcome.pushed, self._wait_s) if outcome.pushed.refs else [],
            acked,
        )


def _answer_rows(exchange: Exchange, ask: StateAsk, found: StateRows) -> None:
    if found.version is None:
        _answer_missing(exchange, _unknown_query(ask.query_id))
        return
    rows = (found.rows or "").encode()
    exchange.answer(200, b'{"success":true,"rows":[%b],"version":%d}' % (rows, found.version))


def _unknown_query(query_id: UUID) -> str:
    return f"Query {query_id} does not exist; register it"


def _answer_missing(exchange: Exchange, error: str) -> None:
    exchange.answer(200, wire.encode(wire.StateMissing(False, [], error)))
