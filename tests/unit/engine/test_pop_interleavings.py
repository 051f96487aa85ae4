"""Pops whose calls and look-ups overlap in ways that once lost something, each told step by step.

The random stories of tests/property/test_pop_service.py look for more of the kind.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from queenmq.engine.pop.intention import Intention
from queenmq.engine.requests import PopRequest, Scope
from queenmq.errors import PartitionBusy
from tests.support.model_store import PendingCall, StillLoop
from tests.support.pop_story import MODULES, Story

ORDERS = Scope("orders")
NAMED = Scope("orders", "p0")


class Play(Story):
    """A story told by name instead of by numbers."""

    def pop(self, scope: Scope, group: str = "a", **more: object) -> Intention:
        found: list[Intention] = []
        request = PopRequest(scope, group, **{"batch": 1, **more})

        async def submit() -> None:
            found.append(self.service.submit(request))

        self.loop.run_until_complete(submit())
        self.asked += found
        self.go_on()
        return found[0]

    def push(self, where: int, count: int = 1, *, is_here: bool = False) -> None:
        self.someone_pushes(where, count - 1, 0 if is_here else 3)
        self.go_on()

    def call(self, name: str) -> PendingCall:
        (found,) = [one for one in self.store.calls if one.name == name]
        return found

    def answer(self, *names: str) -> None:
        for name in names:
            self.call(name).answer()
            self.go_on()

    def fail(self, name: str) -> None:
        self.call(name).fail(PartitionBusy("no luck"))
        self.go_on()

    def answer_all(self) -> None:
        for _ in range(20):
            for call in list(self.store.calls):
                call.answer()
                self.go_on()


def count(intention: Intention) -> int | None:
    """Messages that a pop got; None: it has no answer yet."""
    if not intention.answer.done():
        return None
    return sum(grant.message_count or 0 for grant in intention.answer.result().grants)


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Iterator[Play]:
    loop = StillLoop()
    for module in MODULES:
        monkeypatch.setattr(module, "now_ms", loop.now_ms)
    told = Play(loop)
    yield told
    told.drain()
    loop.close()


def test_a_call_of_another_group_does_not_hide_a_partition(play: Play) -> None:
    play.push(0)
    first = play.pop(ORDERS, "a")
    play.answer("look up")
    second = play.pop(ORDERS, "b")
    play.answer("look up")
    assert count(second) is None, "the call of the other group may leave it"
    play.answer_all()
    assert (count(first), count(second)) == (1, 1)


def test_a_pop_over_several_partitions_does_not_hide_those_it_leaves(play: Play) -> None:
    for where in (0, 1, 2):
        play.push(where)
    first = play.pop(ORDERS, partitions=3)
    play.answer("look up")
    second = play.pop(ORDERS)
    play.answer("look up")
    assert count(second) is None
    play.answer_all()
    assert (count(first), count(second)) == (1, 1)


def test_an_auto_acked_pop_by_name_does_not_hide_the_rest_of_its_partition(play: Play) -> None:
    play.push(0, 3)
    first = play.pop(NAMED, is_auto_ack=True)
    play.answer("find", "look up")
    second = play.pop(ORDERS)
    play.answer("look up")
    assert count(second) is None
    play.answer_all()
    assert (count(first), count(second)) == (1, 1)


def test_a_look_up_on_its_way_does_not_make_up_for_a_call_that_breaks(play: Play) -> None:
    play.push(0)
    play.push(1)
    play.pop(ORDERS, is_auto_ack=True)
    play.answer("look up", "pop")
    # The other partition is known by now; its call breaks during a look-up that is told nothing.
    waiting = play.pop(ORDERS, wait_ms=60_000)
    other = play.pop(ORDERS, wait_ms=60_000)
    play.call("look up").do()
    play.loop.call_soon(play.service.leave, other)
    play.go_on()
    play.fail("pop")
    play.answer_all()
    assert count(waiting) == 1


@pytest.mark.parametrize("how", ["left", "out of time"])
def test_the_broken_call_of_one_pop_does_not_send_another_away(play: Play, how: str) -> None:
    play.push(0, 3)
    play.pop(ORDERS, is_auto_ack=True)
    play.answer("look up")
    gone = play.pop(NAMED, wait_ms=300)
    play.answer("find")
    waiting = play.pop(NAMED)
    play.answer("pop")
    if how == "left":
        play.loop.call_soon(play.service.leave, gone)
    else:
        play.loop.pass_ms(301)
    play.go_on()
    play.fail("pop")
    if how == "out of time":
        gone.answer.exception()
    play.answer_all()
    assert count(waiting) == 1


def test_a_push_during_the_look_up_of_several_queues_is_looked_up_at_once(play: Play) -> None:
    waiting = play.pop(Scope(namespace="shop"), wait_ms=60_000)
    play.call("look up").do()
    play.push(3, is_here=True)
    play.answer_all()
    assert count(waiting) == 1


def test_a_notification_during_the_call_of_the_only_waiter_is_not_lost(play: Play) -> None:
    waiting = play.pop(NAMED, wait_ms=60_000)
    play.answer("find", "look up")
    play.loop.call_soon(play.service.pushed, [play.pick(0).ref])
    play.go_on()
    play.call("pop").do()
    play.push(0)
    play.loop.call_soon(play.service.pushed_elsewhere, ["orders"])
    play.go_on()
    play.answer_all()
    assert count(waiting) == 1


def test_a_lease_that_runs_out_is_noticed_while_other_calls_never_pause(play: Play) -> None:
    # Another broker's lease of p1, of which nobody will tell; p0 keeps this one busy.
    play.push(1)
    play.another_broker_pops(1, 0, 0)
    waiting = [play.pop(ORDERS, wait_ms=600_000) for _ in range(2)]
    play.answer_all()
    for _ in range(200):
        play.push(0, is_here=True)
        waiting.append(play.pop(ORDERS, wait_ms=600_000))
        for name in ("look up", "check"):
            for call in [one for one in play.store.calls if one.name == name]:
                call.answer()
        calls = [one for one in play.store.calls if one.name == "pop"]
        if len(calls) > 1:
            calls[0].answer()
        play.loop.pass_ms(20)
        play.a_lease_ends(0, 0, 5)
        play.go_on()
    got = {
        grant.partition_name
        for one in waiting
        if one.answer.done()
        for grant in one.answer.result().grants
    }
    assert "p1" in got
