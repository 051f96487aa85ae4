"""Nobody waits for ever: planning turns over and over, with workers that ask again at once.

Every partition always has messages for every group. A call leases, its messages are acked, and the
partition is ready again; so whoever waits could be served in any turn, and only the plan decides.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import hypothesis.strategies as st
from hypothesis import given, settings

from queenmq.engine.pop.board.decision import Assignment, Room
from queenmq.engine.pop.intention import Intention
from queenmq.engine.requests import PartitionKey, Scope
from tests.support.pops import (
    AMPLE,
    OpenBoard,
    make_board,
    make_grant,
    make_resolved,
    partition,
    submit,
)

PARTITIONS = range(6)
GROUPS = ("a", "b")
QUEUE = "orders"
#: Partition 0 is asked for by name, the higher ones by nobody.
NAMED = [Scope(QUEUE, f"p{number}") for number in PARTITIONS[:3]]
ANY = [Scope(QUEUE), Scope(namespace="shop"), Scope(task="ship")]


@dataclass(frozen=True)
class Worker:
    """Somebody who pops again as soon as the last pop is answered."""

    scope: Scope
    group: str
    batch: int
    partitions: int = 1
    is_auto_ack: bool = False
    #: Calls of its first pop that break.
    broken_calls: int = 0


@dataclass
class Factory:
    """A board, its workers, and calls on a few slots."""

    room: Room
    slots: int
    board: OpenBoard = field(init=False)
    calls: list[list[Assignment]] = field(default_factory=list)
    asked: dict[int, tuple[Worker, int]] = field(default_factory=dict)
    turn: int = 0
    longest: int = 0

    def __post_init__(self) -> None:
        self.board = make_board(self.room)

    def ask(self, worker: Worker, broken_calls: int = 0) -> None:
        intention = submit(
            self.board,
            worker.scope,
            group=worker.group,
            batch=worker.batch,
            partitions=worker.partitions,
            is_auto_ack=worker.is_auto_ack,
            wait_ms=1_000,
            broken_calls=broken_calls,
        )
        self.asked[intention.number] = (worker, self.turn)

    def look_up(self) -> None:
        """Answer a look-up for the pools that need one: everything, in a fixed order."""
        self.board.state.tick += 1
        for pool in self.board.state.pools:
            if pool.waiting_count and not pool.ready:
                name = pool.scope.partition
                found = [n for n in PARTITIONS if name is None or name == f"p{n}"]
                result = make_resolved(*found)
                pool.learn(result, (), tick=self.board.tick, doubts=pool.doubts)
                self.board.state.dirty[pool] = None

    def run_turn(self) -> None:
        self.turn += 1
        self.look_up()
        while len(self.calls) < self.slots and self.board.state.dirty:
            assignments = self.board.plan(0).assignments
            if not assignments:
                break
            self.calls.append(assignments)
        if self.calls:
            self.end(self.calls.pop(0))
        waits = [self.turn - since for _, since in self.asked.values()]
        self.longest = max(self.longest, *waits)

    def end(self, assignments: list[Assignment]) -> None:
        self.board.end(assignments)
        for one in assignments:
            grants = [
                make_grant(partition_id.int, "granted", has_more=True)
                for partition_id in one.partition_ids
            ]
            self.board.learn(one, grants, 0)
            for partition_id in one.partition_ids:
                key = PartitionKey(QUEUE, f"p{partition_id.int}")
                group = one.pool.consumer_group
                self.board.free(partition_id, key, group, ("shop", "ship"))
            self.serve(one.intention)

    def serve(self, intention: Intention) -> None:
        worker, _ = self.asked.pop(intention.number)
        self.ask(worker)


rooms = st.one_of(
    st.just(AMPLE),
    st.builds(
        Room, requests=st.integers(1, 5), candidates=st.integers(1, 5), messages=st.integers(1, 20)
    ),
)


def workers(scopes: list[Scope], *, broken: int = 0) -> st.SearchStrategy[Worker]:
    return st.builds(
        Worker,
        scope=st.sampled_from(scopes),
        group=st.sampled_from(GROUPS),
        batch=st.integers(1, 10),
        partitions=st.integers(1, 3),
        is_auto_ack=st.booleans(),
        broken_calls=st.integers(0, broken),
    )


def longest_wait(crew: list[Worker], room: Room, slots: int) -> int:
    factory = Factory(room, slots)
    for worker in crew:
        factory.ask(worker, worker.broken_calls)
    for _ in range(12 * len(crew) + 60):
        factory.run_turn()
    assert factory.board.double_assignments == 0
    return factory.longest


def bound(crew: list[Worker]) -> int:
    """Turns in which everybody has had their turn: one call ends per turn, one pop may be all of
    it, and a pool may serve its whole row before the next.
    """
    return 4 * len(crew) + 20


@given(crew=st.lists(workers(ANY), min_size=1, max_size=10), room=rooms, slots=st.integers(1, 3))
def test_everybody_who_takes_any_partition_is_served_soon(
    crew: list[Worker], room: Room, slots: int
) -> None:
    assert longest_wait(crew, room, slots) <= bound(crew)


@given(crew=st.lists(workers([*ANY, *NAMED]), min_size=1, max_size=10), slots=st.integers(1, 3))
def test_everybody_is_served_soon_when_there_is_room(crew: list[Worker], slots: int) -> None:
    assert longest_wait(crew, AMPLE, slots) <= bound(crew)


@given(
    crew=st.lists(workers([*ANY, *NAMED]), min_size=1, max_size=10),
    room=rooms,
    slots=st.integers(1, 3),
)
def test_pops_by_name_do_not_shut_out_the_others_however_little_fits_a_call(
    crew: list[Worker], room: Room, slots: int
) -> None:
    assert longest_wait(crew, room, slots) <= bound(crew)


@given(
    crew=st.lists(workers([*ANY, *NAMED], broken=1), min_size=1, max_size=10),
    room=rooms,
    slots=st.integers(1, 3),
)
def test_a_pop_that_has_to_be_tried_alone_gets_its_turn(
    crew: list[Worker], room: Room, slots: int
) -> None:
    assert longest_wait(crew, room, slots) <= bound(crew)


@given(data=st.data(), turns=st.integers(20, 60))
@settings(max_examples=40)
def test_a_hot_partition_does_not_keep_cold_ones_from_being_served(
    data: st.DataObject, turns: int
) -> None:
    # One worker for any partition; partition 0 is marked again all the time, the others once.
    board = make_board(Room(requests=1, candidates=1, messages=1))
    served: dict[int, int] = {}
    pool = board.state.pools.get_or_add(Scope(QUEUE), GROUPS[0])
    order = data.draw(st.permutations(PARTITIONS))
    for number in order:
        board.state.add_ready(pool, partition(number))
    for turn in range(turns):
        submit(board, Scope(QUEUE), group=GROUPS[0], is_auto_ack=True)
        (one,) = board.plan(0).assignments
        (partition_id,) = one.partition_ids
        served.setdefault(partition_id.int, turn)
        board.end([one])
        board.learn(one, [make_grant(partition_id.int, "granted", has_more=True)], 0)
        for _ in range(data.draw(st.integers(0, 2))):
            board.state.add_ready(pool, partition(0))
    assert sorted(served.values()) == list(PARTITIONS), "each one waits for the others once"
