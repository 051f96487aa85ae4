"""All pools of a broker: found by what a push or an ack knows, and forgotten without a trace."""

from __future__ import annotations

import pytest

from queenmq.engine.pop.board.pool_index import PoolIndex
from queenmq.engine.requests import PartitionKey, Scope
from tests.support.pops import GROUP, ORDERS, make_intention

SCOPES = {
    "partition": Scope("orders", "p1"),
    "other partition": Scope("orders", "p2"),
    "queue": Scope("orders"),
    "other queue": Scope("mails"),
    "namespace": Scope(namespace="shop"),
    "task": Scope(task="ship"),
    "both": Scope(namespace="shop", task="ship"),
    "other namespace": Scope(namespace="office"),
}


@pytest.fixture
def index() -> PoolIndex:
    """One pool per scope."""
    made = PoolIndex()
    for scope in SCOPES.values():
        made.get_or_add(scope, GROUP)
    return made


def touched(index: PoolIndex, *, namespace: str = "shop", task: str = "ship") -> list[str]:
    names = {scope: name for name, scope in SCOPES.items()}
    key = PartitionKey("orders", "p1")
    return [names[pool.scope] for pool in index.touched_by(key, namespace=namespace, task=task)]


def test_the_same_place_and_group_is_the_same_pool(index: PoolIndex) -> None:
    assert index.get_or_add(ORDERS, GROUP) is index.get_or_add(Scope(queue="orders"), GROUP)
    assert index.get_or_add(ORDERS, GROUP) is not index.get_or_add(ORDERS, "audit")
    assert len(index) == len(SCOPES) + 1


def test_a_push_touches_every_pool_that_may_serve_it_by_name_first(index: PoolIndex) -> None:
    found = touched(index)
    assert found[0] == "partition"
    assert sorted(found) == ["both", "namespace", "partition", "queue", "task"]


def test_filters_compare_namespace_and_task(index: PoolIndex) -> None:
    assert touched(index, task="bill") == ["partition", "queue", "namespace"]
    assert touched(index, namespace="home") == ["partition", "queue", "task"]


def test_all_groups_are_touched(index: PoolIndex) -> None:
    index.get_or_add(ORDERS, "audit")
    assert touched(index).count("queue") == 2


def test_of_queue_finds_its_partitions_and_every_filter(index: PoolIndex) -> None:
    names = {scope: name for name, scope in SCOPES.items()}
    found = {names[pool.scope] for pool in index.of_queue("orders")}
    assert found == set(SCOPES) - {"other queue"}


@pytest.mark.parametrize("name", SCOPES)
def test_a_removed_pool_is_found_no_more(index: PoolIndex, name: str) -> None:
    pool = index.get_or_add(SCOPES[name], GROUP)
    index.remove(pool)
    assert pool not in list(index)
    assert pool not in list(index.of_queue("orders"))
    assert pool not in list(index.of_queue("mails"))
    assert name not in touched(index)


def test_removing_every_pool_leaves_nothing_behind(index: PoolIndex) -> None:
    for pool in index:
        index.remove(pool)
    assert len(index) == 0
    assert vars(index) == vars(PoolIndex())


def test_a_removed_pool_leaves_those_of_other_groups(index: PoolIndex) -> None:
    other = index.get_or_add(ORDERS, "audit")
    index.remove(index.get_or_add(ORDERS, GROUP))
    assert list(index.of_queue("orders")).count(other) == 1


def test_remove_idle_keeps_pools_in_use(index: PoolIndex) -> None:
    waited_for, claimed, read = (
        index.get_or_add(SCOPES[name], GROUP) for name in ("queue", "partition", "task")
    )
    waited_for.add(make_intention())
    claimed.claims = {7}
    read.reads = 1
    index.remove_idle()
    assert set(index) == {waited_for, claimed, read}
