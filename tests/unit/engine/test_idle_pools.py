"""Idle pools of a queue share one look at what is new; only those it concerns are looked up."""

from __future__ import annotations

from typing import Any

import pytest

from queenmq.engine.outcomes import HoldReason
from queenmq.engine.pop.board.look_up import concerns
from queenmq.engine.pop.board.pool import Pool
from queenmq.engine.requests import News, Scope
from tests.support.knowledge_world import KnowledgeWorld

NAMED = [Scope("orders", f"p{number}") for number in range(3)]
WIDE = Scope("orders")
OTHER = Scope("mails")


class Asked(KnowledgeWorld):
    """Counts what the database is asked."""

    def __init__(self) -> None:
        super().__init__([*NAMED, WIDE, OTHER], ["g"])
        self.questions: list[str] = []
        for name in ("find_news", "pop_sm_resolve", "has_pending_messages"):
            setattr(self._store, name, self._counted(name, getattr(self._store, name)))

    def _counted(self, name: str, call: Any) -> Any:
        async def counted(first: Any, *rest: Any, **more: Any) -> Any:
            self.questions.append(f"{name} {len(first)}")
            return await call(first, *rest, **more)

        return counted

    def ask_all(self) -> list[str]:
        """Return the questions of one look-up of all pools, and the number of places."""
        self.questions.clear()
        self.look_up_now(self.board.state.pools)
        return self.questions

    def push(self, number: int) -> None:
        transaction = self.database.begin()
        transaction.pushes.append((self.database.partitions[number], 1))
        self.end(transaction, is_here=False)

    def pool(self, scope: Scope) -> Pool:
        return self.board.state.pools.get_or_add(scope, "g")


def test_idle_pools_share_a_question_per_queue() -> None:
    world = Asked()
    assert world.ask_all() == ["pop_sm_resolve 5"], "nothing is known yet"
    assert world.ask_all() == ["find_news 2"], "five pools, two queues"
    assert world.ask_all() == ["find_news 2"]


def test_only_the_pools_that_news_concerns_are_looked_up() -> None:
    world = Asked()
    world.ask_all()
    world.push(1)
    assert world.ask_all() == ["find_news 2", "pop_sm_resolve 2"]
    place = world.database.partitions[1].id
    assert list(world.pool(NAMED[1]).ready) == list(world.pool(WIDE).ready) == [place]
    assert not world.pool(NAMED[0]).ready and not world.pool(OTHER).ready


def test_woken_pool_without_news_is_not_looked_up() -> None:
    world = Asked()
    world.ask_all()
    for pool in world.board.state.pools:
        pool.is_woken = True
    assert world.ask_all() == ["find_news 2"]


def test_doubt_during_the_look_is_not_forgotten() -> None:
    world = Asked()
    world.ask_all()
    world.begin_look_up([world.pool(NAMED[0])])
    world.pool(NAMED[0]).doubt()
    assert world.question is not None
    world.question.see()
    world.resume_look_up()
    assert world.pool(NAMED[0]).horizon is None


def test_pool_with_held_partitions_is_looked_up_itself() -> None:
    world = Asked()
    world.ask_all()
    world.pool(NAMED[0]).hold(world.database.partitions[0].id, HoldReason.LEASE, world.board.tick)
    assert "pop_sm_resolve 1" in world.ask_all()


@pytest.mark.parametrize(
    ("scope", "is_changed", "names", "is_concerned"),
    [
        (NAMED[0], False, ["p0"], True),
        (NAMED[0], False, ["p1"], False),
        (NAMED[0], True, [], True),
        (WIDE, False, ["p1"], True),
        (WIDE, False, [], False),
        (WIDE, True, [], True),
    ],
)
def test_whom_news_concerns(
    scope: Scope, is_changed: bool, names: list[str], is_concerned: bool
) -> None:
    assert concerns(Pool(scope, "g"), News(is_changed, names, "7")) is is_concerned
