"""Pops, pools and boards for tests of the pure part of the pop path, in short calls."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from queenmq.engine.outcomes import HoldReason
from queenmq.engine.pop.board.board import PopBoard
from queenmq.engine.pop.board.decision import Assignment, Plan, Room
from queenmq.engine.pop.board.limits import BoardLimits
from queenmq.engine.pop.board.look_up import LookUp
from queenmq.engine.pop.board.poll_schedule import PollSchedule
from queenmq.engine.pop.board.pool import Pool
from queenmq.engine.pop.board.state import BoardState
from queenmq.engine.pop.intention import Intention, StateTimes
from queenmq.engine.pop.machine import PopState
from queenmq.engine.pop.metrics import PopMetrics
from queenmq.engine.requests import (
    PartitionKey,
    PartitionRef,
    PopGrant,
    PopRequest,
    Resolved,
    Scope,
)
from queenmq.metrics.registry import Registry
from queenmq.storage.stores.outcomes import decode_pop

GROUP = "billing"
ORDERS = Scope("orders")
#: More than any test asks for.
AMPLE = Room(requests=1_000, candidates=1_000, messages=1_000_000)


def partition(number: int) -> UUID:
    return UUID(int=number)


def numbers(partition_ids: Iterable[UUID]) -> list[int]:
    return [one.int for one in partition_ids]


def make_request(scope: Scope = ORDERS, group: str = GROUP, **more: Any) -> PopRequest:
    return PopRequest(scope=scope, consumer_group=group, **{"batch": 1, **more})


class Tally:
    """Adds up what it is told, in milliseconds."""

    def __init__(self) -> None:
        self.value = 0.0

    def observe(self, value: float) -> None:
        self.value = round(self.value + 1000 * value, 6)


class TalliedTimes(StateTimes):
    """Times that can be read again."""

    def __init__(self) -> None:
        self.tallies = {state: Tally() for state in PopState}
        super().__init__(self.tallies)


def told(times: StateTimes) -> tuple[dict[PopState, int], dict[PopState, float]]:
    """Return how often each state was entered, and the milliseconds in it."""
    assert isinstance(times, TalliedTimes)
    entries = {state: times.entries[state] for state in PopState}
    return entries, {state: tally.value for state, tally in times.tallies.items()}


def make_intention(
    scope: Scope = ORDERS,
    *,
    tick: int = 0,
    now_ms: float = 0,
    times: StateTimes | None = None,
    **more: Any,
) -> Intention:
    return Intention(
        make_request(scope, **more),
        tick=tick,
        answer=None,
        now_ms=now_ms,
        times=times or TalliedTimes(),
    )


def make_pool(*ready: int, scope: Scope = ORDERS, group: str = GROUP) -> Pool:
    pool = Pool(scope, group)
    for number in ready:
        pool.mark_ready(partition(number))
    return pool


class OpenBoard(PopBoard):
    """A board that shows its inside to tests of its parts; calls and look-ups are the test's."""

    def __init__(
        self, room: Room = AMPLE, *, page: int = 1_000, pools_max: int = 6, interval_ms: int = 100
    ) -> None:
        #: What the broker remembers of partitions.
        self.known: dict[PartitionKey, PartitionRef] = {}
        self._registry = Registry()
        super().__init__(
            BoardLimits(
                room=room,
                look_up_pools_max=pools_max,
                page=page,
                is_checking=True,
                look_up_limit_ms=50,
                look_up_interval_ms=interval_ms,
            ),
            PollSchedule(min_interval_ms=100, max_interval_ms=1_000, listening_interval_ms=5_000),
            PopMetrics(self._registry, slots=1),
            find_known=self.known.get,
        )

    @property
    def state(self) -> BoardState:
        return self._state

    def count(self, name: str) -> float:
        """What a series without labels has counted."""
        (family,) = [one for one in self._registry.collect() if one.name == name]
        return sum(sample.value for sample in family.samples)

    @property
    def double_assignments(self) -> int:
        return self._turns.double_assignments

    def plan(self, now_ms: float = 0) -> Plan:
        return self._turns.plan(now_ms)

    def begin_look_up(self, pools: Iterable[Pool]) -> LookUp:
        for pool in pools:
            pool.is_urgent = True
            self.state.want_look_up(pool)
        (look_up,) = self._look_ups.begin(0)
        return look_up

    def free(
        self, partition_id: UUID, key: PartitionKey, group: str, filters: tuple[str, str]
    ) -> None:
        """A lease of a partition that is remembered has ended."""
        self.known[key] = PartitionRef(
            key, partition_id, str(partition_id), partition_id, *filters, is_encrypted=False
        )
        self.freed(partition_id, key, group)

    def end(self, assignments: Iterable[Assignment]) -> None:
        self._results.end(assignments)

    def learn(self, assignment: Assignment, answers: Iterable[PopGrant], now_ms: float = 0) -> bool:
        """Return whether the partition that was tried is still known."""
        return not list(self._results.learn(assignment, list(answers), now_ms))


def make_board(room: Room = AMPLE) -> OpenBoard:
    return OpenBoard(room)


def submit(
    board: OpenBoard, scope: Scope = ORDERS, *, broken_calls: int = 0, **more: Any
) -> Intention:
    """A pop that waits on the board, as news."""
    intention = make_intention(scope, tick=board.tick, **more)
    intention.broken_calls = broken_calls
    pool = board.state.pool_of(intention.request)
    pool.add(intention)
    board.state.dirty[pool] = None
    return intention


def mark(board: OpenBoard, *ready: int, scope: Scope = ORDERS, group: str = GROUP) -> Pool:
    """Partitions with work, as news for whoever waits."""
    pool = board.state.pools.get_or_add(scope, group)
    for number in ready:
        board.state.add_ready(pool, partition(number))
    return pool


def plan(board: OpenBoard) -> Plan:
    return board.plan()


def taken(plan: Plan | Iterable[Assignment]) -> list[list[int]]:
    """The partitions of each assignment, in the order of the plan."""
    assignments = plan.assignments if isinstance(plan, Plan) else plan
    return [numbers(one.partition_ids) for one in assignments]


def served(plan: Plan) -> list[Intention]:
    return [one.intention for one in plan.assignments]


def make_grant(
    number: int, outcome: str, *, has_more: bool | None = None, due_ms: float | None = None
) -> PopGrant:
    """Return the result of a call for one candidate."""
    nothing = [None] * (len(PopGrant._fields) - 6)
    return PopGrant(1, partition(number), decode_pop(outcome), None, has_more, due_ms, *nothing)


def make_resolved(
    *ready: int,
    held: dict[int, HoldReason] | None = None,
    horizon: str = "100",
    is_complete: bool = True,
    is_found: bool = True,
    next_due_ms: float | None = None,
) -> Resolved:
    """Return the result of a look-up for one place."""
    held = held or {}
    return Resolved(
        is_found=is_found,
        is_complete=is_complete,
        partition_ids=[partition(number) for number in ready],
        held_ids=[partition(number) for number in held],
        held_whys=list(held.values()),
        next_due_ms=next_due_ms,
        horizon=horizon,
    )


def learn(
    pool: Pool,
    *ready: int,
    known: tuple[int, ...] = (),
    tick: int = 5,
    doubts: int | None = None,
    **more: object,
) -> None:
    """A look-up of a pool ends."""
    pool.learn(
        make_resolved(*ready, **more),
        [partition(one) for one in known],
        tick=tick,
        doubts=pool.doubts if doubts is None else doubts,
    )
