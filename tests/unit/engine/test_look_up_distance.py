"""Look-ups keep their distance, and one that takes too long is tried again with more time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from queenmq.engine.pop.board.actions import Action, Answer, StartLookUp, WakeAt
from queenmq.engine.pop.board.look_up import LookUp, Reply, Resolve
from queenmq.engine.pop.board.pool import Pool
from queenmq.engine.requests import Scope
from queenmq.errors import CallTimedOut
from tests.support.pops import GROUP, ORDERS, OpenBoard, make_resolved, partition, submit

MAILS = Scope("mails")


class Watched:
    """A board whose look-ups are answered by the test."""

    def __init__(self, *, pools_max: int = 6, interval_ms: int = 100) -> None:
        self.board = OpenBoard(pools_max=pools_max, interval_ms=interval_ms)

    def turn(self, now_ms: float) -> LookUp | None:
        """Take a turn; the look-up that it begins."""
        return _begun(self.board.turn(now_ms, free_slots=0))

    def wake_at(self, now_ms: float) -> float:
        (wake,) = [one for one in self.board.turn(now_ms, free_slots=0) if isinstance(one, WakeAt)]
        return wake.at_ms

    def answer(self, look_up: LookUp, now_ms: float, *found: int) -> list[Action]:
        """Answer that these partitions have work, in every pool; what comes of the next turn."""
        questions = look_up.questions()
        question = next(questions)
        while not isinstance(question, Resolve):
            question = questions.send(Reply([False] * 99, now_ms, now_ms))
        value = [make_resolved(*found) for _ in question.asks]
        with pytest.raises(StopIteration):
            questions.send(Reply(value, now_ms, now_ms))
        self.board.looked_up(look_up, now_ms)
        return self.board.turn(now_ms, free_slots=0)

    def time_out(self, look_up: LookUp, now_ms: float) -> list[Action]:
        return self.board.look_up_failed(look_up, CallTimedOut(look_up.limit_ms), now_ms)

    def pool(self, scope: Scope = ORDERS) -> Pool:
        return self.board.state.pools.get_or_add(scope, GROUP)

    def look_up_empty(self, now_ms: float) -> None:
        """The pool is looked up for a pop that may not wait, and has nothing."""
        submit(self.board)
        look_up = self.turn(now_ms)
        assert look_up is not None
        self.answer(look_up, now_ms)


def _begun(actions: list[Action]) -> LookUp | None:
    found = [one.look_up for one in actions if isinstance(one, StartLookUp)]
    return found[0] if found else None


class TestDistance:
    def test_a_pop_of_an_empty_place_waits_for_the_next_look_up(self) -> None:
        watched = Watched()
        watched.look_up_empty(1_000)
        pop = submit(watched.board, now_ms=1_010)
        assert watched.turn(1_010) is None
        assert watched.wake_at(1_010) == 1_100
        assert pop.is_waiting, "nothing is answered by a look-up that began before the pop came"
        watched.board.due(1_100)
        look_up = watched.turn(1_100)
        assert look_up is not None
        answers = [one for one in watched.answer(look_up, 1_105) if isinstance(one, Answer)]
        assert [one.intention for one in answers] == [pop]

    def test_a_pop_that_may_not_wait_does_not_wait_for_a_long_distance(self) -> None:
        for wait_ms, at_ms in ((None, 1_100), (60_000, 2_000)):
            watched = Watched(interval_ms=1_000)
            watched.look_up_empty(1_000)
            submit(watched.board, wait_ms=wait_ms, now_ms=1_010)
            assert watched.turn(1_010) is None
            assert watched.wake_at(1_010) == 1_100
            assert watched.turn(at_ms - 1) is None
            assert watched.turn(at_ms) is not None

    def test_pops_of_many_places_share_it(self) -> None:
        watched = Watched()
        for scope in (ORDERS, MAILS):
            submit(watched.board, scope)
        first = watched.turn(1_000)
        assert first is not None
        watched.answer(first, 1_001)
        for at_ms, scope in ((1_010, ORDERS), (1_050, MAILS), (1_090, ORDERS)):
            submit(watched.board, scope, now_ms=at_ms)
            assert watched.turn(at_ms) is None
        second = watched.turn(1_100)
        assert second is not None and len(second.pools) == 2

    def test_a_new_place_is_looked_up_at_once_and_takes_the_others_along(self) -> None:
        watched = Watched()
        watched.look_up_empty(1_000)
        submit(watched.board, now_ms=1_010)
        assert watched.turn(1_010) is None
        submit(watched.board, MAILS, now_ms=1_020)
        look_up = watched.turn(1_020)
        assert look_up is not None
        assert set(look_up.pools) == {watched.pool(), watched.pool(MAILS)}

    @pytest.mark.parametrize(
        "tell",
        [
            lambda watched: watched.board.pushed_elsewhere(["orders"]),
            lambda watched: watched.board.listening(True),
            lambda watched: watched.board.lost(),
        ],
    )
    def test_news_does_not_wait(self, tell: Callable[[Watched], None]) -> None:
        watched = Watched()
        watched.look_up_empty(1_000)
        tell(watched)
        submit(watched.board, now_ms=1_010)
        assert watched.turn(1_010) is not None

    def test_a_push_here_is_known_and_only_a_pop_that_may_not_wait_looks_at_once(self) -> None:
        for wait_ms, is_at_once in ((None, True), (60_000, False)):
            watched = Watched()
            watched.look_up_empty(1_000)
            watched.board.state.offer(watched.pool(), partition(1))
            watched.pool().ready.clear()
            submit(watched.board, wait_ms=wait_ms, now_ms=1_010)
            assert (watched.turn(1_010) is not None) is is_at_once

    def test_where_something_was_found_the_next_look_up_comes_at_once(self) -> None:
        watched = Watched()
        submit(watched.board)
        look_up = watched.turn(1_000)
        assert look_up is not None
        watched.answer(look_up, 1_001, 1)
        watched.pool().ready.clear()
        submit(watched.board, now_ms=1_010)
        assert watched.turn(1_010) is not None

    def test_urgent_places_do_not_put_off_the_others_for_ever(self) -> None:
        watched = Watched(pools_max=1)
        watched.look_up_empty(1_000)
        submit(watched.board, now_ms=1_001)
        begun = []
        for at_ms in range(1_010, 1_120, 10):
            watched.board.pushed_elsewhere(["mails"])
            submit(watched.board, MAILS, wait_ms=60_000, now_ms=at_ms)
            look_up = watched.turn(at_ms)
            while look_up is not None:
                begun += look_up.pools
                look_up = _begun(watched.answer(look_up, at_ms))
        assert watched.pool() in begun


class TestTimeOut:
    def test_its_pops_wait_on_and_are_looked_up_later_with_more_time(self) -> None:
        watched = Watched()
        impatient, patient = submit(watched.board), submit(watched.board, wait_ms=60_000)
        look_up = watched.turn(1_000)
        assert look_up is not None and look_up.limit_ms == 50
        seen = []
        now_ms = 1_000.0
        for _ in range(3):
            now_ms += look_up.limit_ms
            assert watched.time_out(look_up, now_ms) == []
            assert impatient.is_waiting and patient.is_waiting
            assert watched.turn(now_ms) is None, "not at once"
            at_ms = watched.wake_at(now_ms)
            watched.board.due(at_ms)
            begun = watched.turn(at_ms)
            assert begun is not None
            look_up = begun
            seen.append((at_ms - now_ms, look_up.limit_ms))
            now_ms = at_ms
        assert seen == [(100, 800), (200, 12_800), (400, 204_800)]
        answers = [one for one in watched.answer(look_up, now_ms) if isinstance(one, Answer)]
        assert [one.intention for one in answers] == [impatient]

    def test_it_counts_only_if_it_had_more_time(self) -> None:
        watched = Watched()
        submit(watched.board)
        now_ms, counts = 1_000.0, []
        for _ in range(3):
            look_up = watched.turn(now_ms)
            assert look_up is not None
            watched.time_out(look_up, now_ms)
            counts.append(watched.board.count("queen_smart_poll_preflight_timeouts"))
            now_ms = watched.wake_at(now_ms)
            watched.board.due(now_ms)
        assert counts == [0, 1, 2]

    def test_no_news_makes_it_earlier(self) -> None:
        watched = Watched()
        submit(watched.board)
        look_up = watched.turn(1_000)
        assert look_up is not None
        watched.time_out(look_up, 1_050)
        watched.board.pushed_elsewhere(["orders"])
        submit(watched.board, now_ms=1_060)
        assert watched.turn(1_060) is None

    def test_fewer_places_share_the_next_one(self) -> None:
        watched = Watched(pools_max=32)
        for number in range(8):
            submit(watched.board, Scope(f"q{number}"))
        look_up = watched.turn(1_000)
        assert look_up is not None and len(look_up.pools) == 8
        watched.time_out(look_up, 1_050)
        watched.board.due(1_150)
        sizes = []
        look_up = watched.turn(1_150)
        while look_up is not None:
            sizes.append(len(look_up.pools))
            look_up = _begun(watched.answer(look_up, 1_150))
        assert sizes == [2, 2, 2, 2]

    def test_other_places_do_not_wait_for_it(self) -> None:
        watched = Watched()
        submit(watched.board)
        look_up = watched.turn(1_000)
        assert look_up is not None
        watched.time_out(look_up, 1_050)
        submit(watched.board, MAILS, now_ms=1_060)
        other = watched.turn(1_060)
        assert other is not None and other.pools == [watched.pool(MAILS)]
        assert other.limit_ms == 50

    def test_a_slow_place_is_looked_up_beside_the_others(self) -> None:
        watched = Watched()
        submit(watched.board)
        look_up = watched.turn(1_000)
        assert look_up is not None
        watched.time_out(look_up, 1_050)
        watched.board.due(1_150)
        slow = watched.turn(1_150)
        assert slow is not None and slow.limit_ms == 800
        submit(watched.board, MAILS, now_ms=1_160)
        other = watched.turn(1_160)
        assert other is not None and other.pools == [watched.pool(MAILS)]
        submit(watched.board, now_ms=1_170)
        assert watched.turn(1_170) is None, "it is in one look-up at a time"
        watched.answer(other, 1_180)
        assert watched.answer(slow, 1_200) and watched.pool().slowness == 0

    def test_quick_answers_bring_the_limit_down_again(self) -> None:
        watched = Watched()
        watched.pool().slowness = 2
        for slowness in (1, 0, 0):
            watched.pool().is_urgent = True
            watched.look_up_empty(1_000)
            assert watched.pool().slowness == slowness

    def test_a_pop_that_may_not_wait_gets_an_error_in_the_end(self) -> None:
        watched = Watched()
        impatient, patient = submit(watched.board), submit(watched.board, wait_ms=60_000)
        look_up = watched.turn(1_000)
        assert look_up is not None
        (answer,) = watched.time_out(look_up, 31_001)
        assert isinstance(answer, Answer) and answer.intention is impatient
        assert isinstance(answer.result, CallTimedOut)
        assert patient.is_waiting
