"""Laws of the decision engine, over random worlds of pools, waiters, busy partitions and room."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

import hypothesis.strategies as st
from hypothesis import given, settings

from queenmq.engine.outcomes import HoldReason
from queenmq.engine.pop.board.decision import Decision, Plan, Room, decide
from queenmq.engine.pop.board.pool import Pool
from queenmq.engine.pop.intention import Intention
from queenmq.engine.requests import Scope
from tests.support.pops import AMPLE, make_intention, partition

PARTITIONS = range(6)
#: Partitions with even numbers are in one queue, the others in another one.
QUEUES = ("even", "odd")
SCOPES = [
    *(Scope(QUEUES[number % 2], f"p{number}") for number in PARTITIONS),
    *(Scope(queue) for queue in QUEUES),
    Scope(namespace="shop"),
    Scope(task="ship"),
]


class World(NamedTuple):
    """The input of the planner."""

    pools: list[Pool]
    busy: set[UUID]
    room: Room

    def plan(self) -> Plan:
        return decide(self.pools, self.busy, room=self.room)


def in_scope(scope: Scope) -> list[int]:
    if scope.partition is not None:
        return [int(scope.partition[1:])]
    return [one for one in PARTITIONS if scope.queue in (None, QUEUES[one % 2])]


@st.composite
def pools(draw: st.DrawFn, *, broken: bool) -> list[Pool]:
    keys = st.tuples(st.sampled_from(SCOPES), st.sampled_from(["a", "b"]))
    made = [Pool(*key) for key in draw(st.lists(keys, unique=True, max_size=7))]
    for pool in made:
        whys = st.one_of(st.none(), st.just("ready"), st.sampled_from(HoldReason))
        for number in draw(st.permutations(in_scope(pool.scope))):
            if (why := draw(whys)) == "ready":
                pool.mark_ready(partition(number))
            elif why is not None:
                pool.hold(partition(number), why, 0)
        pool.claims = draw(st.sets(st.integers(1, 3), max_size=1))
    # Waiters arrive in any order, and some come back to their old place.
    arrivals = [
        make_intention(
            pool.scope,
            group=pool.consumer_group,
            partitions=draw(st.integers(1, 3)) if not pool.is_specific else 1,
            batch=draw(st.integers(1, 6)),
        )
        for pool in (draw(st.lists(st.sampled_from(made), max_size=12)) if made else ())
    ]
    for intention in draw(st.permutations(arrivals)):
        intention.broken_calls = draw(st.sampled_from([0, 0, 0, 1])) if broken else 0
        (pool,) = (one for one in made if one.key == _key(intention))
        pool.add(intention)
    return made


def _key(intention: Intention) -> tuple[Scope, str]:
    return intention.request.scope, intention.request.consumer_group


rooms = st.builds(
    Room, requests=st.integers(1, 6), candidates=st.integers(1, 8), messages=st.integers(1, 20)
)


def worlds(*, broken: bool = True, room: st.SearchStrategy[Room] = rooms) -> st.SearchStrategy:
    busy = st.sets(st.sampled_from(PARTITIONS).map(partition), max_size=4)
    return st.builds(World, pools(broken=broken), busy, room)


any_world = worlds(room=st.one_of(rooms, st.just(AMPLE)))


def given_to(plan: Plan, pool: Pool) -> list[UUID]:
    return [
        one for a in plan.assignments if a.pool is pool for one in a.partition_ids
    ]  # in the order of the plan


def reserved_from(world: World, pool: Pool) -> set[UUID]:
    """Return the partitions that other pops of the group wait for by name."""
    if pool.is_specific:
        return set()
    return {
        partition_id
        for one in world.pools
        if one.is_specific and one.waiting_count and one.consumer_group == pool.consumer_group
        for partition_id in one.ready
    }


def free_for(world: World, plan: Plan, pool: Pool) -> list[UUID]:
    """Return the partitions of a pool that the plan leaves free."""
    pot = {
        one
        for a in plan.assignments
        if a.pool.consumer_group == pool.consumer_group
        for one in a.partition_ids
    }
    barred = pot | world.busy | reserved_from(world, pool)
    return [one for one in pool.ready if one not in barred]


def left(plan: Plan, pool: Pool) -> list[Intention]:
    got = {id(one.intention) for one in plan.assignments}
    return [one for one in pool.waiting() if id(one) not in got]


@given(any_world)
def test_no_partition_goes_to_a_group_twice_or_while_it_is_busy(world: World) -> None:
    plan = world.plan()
    pairs = [(a.pool.consumer_group, one) for a in plan.assignments for one in a.partition_ids]
    assert len(pairs) == len(set(pairs))
    assert not {one for _, one in pairs} & world.busy


@given(any_world)
def test_everybody_gets_what_they_asked_for_and_from_their_own_pool(world: World) -> None:
    for one in world.plan().assignments:
        assert one.pool.key == _key(one.intention)
        assert 1 <= len(one.partition_ids) <= one.intention.request.partitions
        assert set(one.partition_ids) <= set(one.pool.ready)


@given(any_world)
def test_within_a_pool_the_longest_waiter_goes_first_and_partitions_in_turn(world: World) -> None:
    plan = world.plan()
    for pool in world.pools:
        got = [one.intention for one in plan.assignments if one.pool is pool]
        assert got == list(pool.waiting())[: len(got)]
        mine = given_to(plan, pool)
        others = {
            one
            for a in plan.assignments
            if a.pool is not pool and a.pool.consumer_group == pool.consumer_group
            for one in a.partition_ids
        }
        barred = others | world.busy | reserved_from(world, pool)
        open_to_it = [one for one in pool.ready if one not in barred]
        assert mine == open_to_it[: len(mine)]


@given(any_world)
def test_a_named_partition_goes_to_who_names_it(world: World) -> None:
    plan = world.plan()
    for pool in world.pools:
        for one in given_to(plan, pool):
            assert one not in reserved_from(world, pool)
        if pool.is_specific and pool.waiting_count and pool not in plan.cut_off:
            for one in set(pool.ready) - world.busy:
                assert one in given_to(plan, pool)


@given(any_world)
def test_the_longest_waiter_of_all_who_can_be_served_is_served(world: World) -> None:
    nobody_served = Plan()
    servable = [
        one for one in world.pools if one.waiting_count and free_for(world, nobody_served, one)
    ]
    if servable:
        longest = min(servable, key=Pool.first_number)
        assert world.plan().assignments[0].intention is next(iter(longest.waiting()))


@given(worlds(broken=False, room=st.just(AMPLE)))
def test_with_room_nobody_is_skipped_while_a_partition_is_free(world: World) -> None:
    plan = world.plan()
    assert plan.cut_off == []
    for pool in world.pools:
        assert not (left(plan, pool) and free_for(world, plan, pool))


@given(any_world)
def test_whoever_waits_is_served_skipped_or_cut_off(world: World) -> None:
    plan = world.plan()
    skipped = [pool for pool, _ in plan.skipped]
    assert len(skipped) == len(set(skipped)) and len(plan.cut_off) == len(set(plan.cut_off))
    assert not set(skipped) & set(plan.cut_off)
    assert {*skipped, *plan.cut_off} == {one for one in world.pools if left(plan, one)}
    for pool in skipped:
        assert not free_for(world, plan, pool), "skipped while something was free"


@given(any_world)
def test_a_call_keeps_within_its_room_but_for_its_first_request(world: World) -> None:
    plan, room = world.plan(), world.room
    assert len(plan.assignments) <= room.requests
    assert sum(len(one.partition_ids) for one in plan.assignments) <= room.candidates
    if len(plan.assignments) > 1:
        assert sum(one.intention.request.batch for one in plan.assignments) <= room.messages
        assert not any(one.intention.broken_calls for one in plan.assignments)


@given(any_world)
def test_a_pool_is_cut_off_only_when_a_bound_is_reached(world: World) -> None:
    plan, room = world.plan(), world.room
    candidates = sum(len(one.partition_ids) for one in plan.assignments)
    messages = sum(one.intention.request.batch for one in plan.assignments)
    closed = any(one.intention.broken_calls for one in plan.assignments)
    for pool in plan.cut_off:
        first = left(plan, pool)[0]
        assert (
            closed
            or first.broken_calls
            or len(plan.assignments) == room.requests
            or candidates == room.candidates
            or messages + first.request.batch > room.messages
        )
        assert plan.assignments, "a request always fits an empty call"


@given(any_world)
def test_if_anything_can_be_served_something_is(world: World) -> None:
    plan = world.plan()
    servable = [one for one in world.pools if one.waiting_count and set(one.ready) - world.busy]
    assert bool(plan.assignments) == bool(servable)


@given(any_world)
def test_deciding_changes_nothing(world: World) -> None:
    def picture() -> list[object]:
        waiters = [one for pool in world.pools for one in pool.waiting()]
        return [
            *((one, one.state, one.tries, one.broken_calls) for one in waiters),
            *((list(one.ready), dict(one.held), set(one.claims)) for one in world.pools),
            set(world.busy),
        ]

    before = picture()
    first, second = world.plan(), world.plan()
    assert picture() == before
    assert first == second, "the same world, the same plan"


@given(any_world)
@settings(max_examples=200)
def test_the_reason_tells_what_is_in_the_way(world: World) -> None:
    for pool, reason in world.plan().skipped:
        whys = {held.why for held in pool.held.values()}
        match reason:
            case Decision.SKIP_NO_PARTITIONS:
                assert not (pool.ready or pool.held or pool.claims or pool.is_specific)
            case Decision.SKIP_PARTITION_UNAVAILABLE:
                assert pool.is_specific
            case Decision.SKIP_LEASE_TAKEN:
                assert pool.ready or pool.claims or HoldReason.LEASE in whys
            case Decision.SKIP_WINDOW_BUFFER:
                assert whys & {HoldReason.TIME, HoldReason.BLOCKED} and not pool.ready
            case _:
                raise AssertionError(f"{reason} is no reason to skip")
