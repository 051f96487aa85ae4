"""The pop board alone in a simulated world: no event loop, a clock of its own, a model database.

Everything that happens comes from one seed. The world carries actions out late, out of order, or
with an error, and checks after every step that no partition is in two calls, that each pop gets one
answer, and that nobody is told that there is nothing while there is something all the time.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from queenmq.engine.outcomes import PopOutcome
from queenmq.engine.pop.board.actions import (
    Action,
    Answer,
    Fetch,
    Forget,
    HandBack,
    Lease,
    StartLookUp,
    WakeAt,
)
from queenmq.engine.pop.board.board import PopBoard
from queenmq.engine.pop.board.decision import Room
from queenmq.engine.pop.board.limits import BoardLimits
from queenmq.engine.pop.board.look_up import (
    FindNews,
    FindPartitions,
    HasPending,
    LookUp,
    Question,
    Reply,
    WalkOn,
)
from queenmq.engine.pop.board.poll_schedule import PollSchedule
from queenmq.engine.pop.board.pool import Pool
from queenmq.engine.pop.calls import candidates_of
from queenmq.engine.pop.intention import Intention
from queenmq.engine.pop.metrics import PopMetrics
from queenmq.engine.requests import PartitionKey, PartitionRef, PopGrant, PopRequest, Scope
from queenmq.errors import (
    CallTimedOut,
    PartitionBusy,
    QueenError,
    StorageRejected,
    StorageUnavailable,
)
from queenmq.metrics.registry import Registry
from tests.support.model_database import ModelDatabase, ModelPartition, ModelQueue
from tests.support.pops import TalliedTimes, partition

GROUPS = ("a", "b")
SCOPES = (Scope("orders"), Scope(namespace="shop"), Scope("orders", "p0"), Scope("orders", "p1"))
SLOTS, PAGE, APART = 2, 2, 2
LEASE_MS = 700
#: Least time between two look-ups without news.
INTERVAL_MS = 100
#: Pops in the world at once; more would only wait longer.
_INSIDE_MAX = 12
_ERRORS = (StorageUnavailable, StorageRejected, PartitionBusy)


@dataclass(eq=False)
class Call:
    """Something on its way: the database does it first, then its answer arrives."""

    act: Callable[[], Any]
    report: Callable[[Any], None]
    fail: Callable[[QueenError], None]
    #: The partitions that the call may lease.
    partition_ids: tuple[UUID, ...] = ()
    is_look_up: bool = False
    result: Any = None
    is_done: bool = False

    def do(self) -> None:
        if not self.is_done:
            self.result, self.is_done = self.act(), True


class PopSimulation:
    """One board and its world."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.now = 1_000.0
        self.database = ModelDatabase()
        self.database.lease_time = LEASE_MS
        # In every second world queues are walked through.
        self.database.whole_max = 99 * self._random.randrange(2)
        queues = [ModelQueue("orders", "shop", 1), ModelQueue("mails", "shop", 2)]
        self.database.partitions += [
            ModelPartition(partition(number + 1), queues[number // 3], f"p{number}")
            for number in range(4)
        ]
        self._known: dict[PartitionKey, PartitionRef] = {}
        room = Room(requests=3, candidates=4, messages=20)
        self.board = PopBoard(
            BoardLimits(
                room=room,
                look_up_pools_max=3,
                page=PAGE,
                is_checking=True,
                look_up_limit_ms=50,
                look_up_interval_ms=INTERVAL_MS,
            ),
            PollSchedule(
                min_interval_ms=INTERVAL_MS, max_interval_ms=1_000, listening_interval_ms=5_000
            ),
            PopMetrics(Registry(), slots=SLOTS),
            find_known=self._known.get,
        )
        self._times = TalliedTimes()
        self._calls: list[Call] = []
        self._looking: list[LookUp] = []
        self._busy_slots = 0
        self._wake_at: float | None = None
        #: Pops without an answer, and when their time is up.
        self._inside: dict[Intention, float | None] = {}
        #: What was there for an impatient pop from its arrival until now.
        self._there: dict[Intention, set[UUID]] = {}
        self._tried: dict[int, tuple[str, list[UUID]]] = {}
        self._paused: set[str] = set()
        #: When the last look-up without news began, of quick and of slow places.
        self._spaced_at = [0.0, 0.0]
        self.answered = 0
        self.delivered = 0
        self._happenings = self._weighted(
            (self._push, 8),
            (self._pop, 14),
            (self._leave, 2),
            (self._end_lease, 8),
            (self._other_broker_pops, 2),
            (self._do_call, 8),
            (self._answer_call, 22),
            (self._fail_call, 1),
            (self._time_out, 2),
            (self._pass_time, 8),
            (self._pause_or_resume, 1),
            (self._turn, 14),
        )

    @staticmethod
    def _weighted(*pairs: tuple[Callable[[], None], int]) -> list[Callable[[], None]]:
        return [happening for happening, times in pairs for _ in range(times)]

    def run(self, steps: int) -> None:
        for step in range(steps):
            self._random.choice(self._happenings)()
            self._check()
            if step % 100 == 0:
                self._check_wakes()
        self._finish()

    # What happens.

    def _push(self) -> None:
        one = self._random.choice(self.database.partitions)
        # What both groups have is removed, and a partition that lies still does not grow for ever.
        seen = min(one.cursor(group).seq for group in GROUPS)
        one.rows = {seq: xid for seq, xid in one.rows.items() if seq > seen}
        if len(one.rows) > 20:
            return
        transaction = self.database.begin()
        transaction.pushes.append((one, self._random.randint(1, 4)))
        self.database.commit(transaction)
        how = self._random.randrange(4)
        if how < 2:
            self.board.pushed([one.ref])
        elif how == 2:
            self.board.pushed_elsewhere([one.queue.name])

    def _pop(self) -> None:
        if len(self._inside) >= _INSIDE_MAX:
            return
        scope = self._random.choice(SCOPES)
        request = PopRequest(
            scope,
            self._random.choice(GROUPS),
            batch=self._random.randint(1, 4),
            partitions=1 if scope.partition else self._random.randint(1, 3),
            is_auto_ack=self._random.random() < 0.5,
            wait_ms=self._random.choice((None, None, 300, 60_000)),
        )
        intention = Intention(
            request, tick=self.board.tick, answer=None, now_ms=self.now, times=self._times
        )
        wait_ms = request.wait_ms
        self._inside[intention] = None if wait_ms is None else self.now + wait_ms
        if wait_ms is None:
            is_paused = request.consumer_group in self._paused
            self._there[intention] = set() if is_paused else self._deliverable(request)
        self._carry_out(self.board.arrived(intention, self.now))

    def _leave(self) -> None:
        if self._inside:
            intention = self._random.choice(list(self._inside))
            self._carry_out(self.board.left(intention, self.now))
            del self._inside[intention]
            self._there.pop(intention, None)

    def _end_lease(self) -> None:
        one, group = self._random.choice(self.database.partitions), self._random.choice(GROUPS)
        # Nobody ends a lease before its holder has heard of it.
        if any(one.id in call.partition_ids for call in self._calls):
            return
        is_acked = self._random.random() < 0.75
        if self.database.end_lease(one, group, is_acked=is_acked) and self._random.random() < 0.5:
            self.board.freed(one.id, one.ref.key, group)

    def _other_broker_pops(self) -> None:
        scope = Scope("orders")
        request = PopRequest(scope, self._random.choice(GROUPS), batch=1)
        other = Intention(request, tick=0, answer=None, now_ms=0, times=TalliedTimes())
        one = self._random.choice(self.database.partitions)
        wanted = candidates_of([_assignment(other, one.id)])
        self.database.take(wanted, self.database.see(wanted))

    def _do_call(self) -> None:
        if self._calls:
            self._random.choice(self._calls).do()

    def _answer_call(self) -> None:
        if self._calls:
            self._end_call(self._random.choice(self._calls))

    def _fail_call(self) -> None:
        if self._calls:
            call = self._random.choice(self._calls)
            self._calls.remove(call)
            call.fail(self._random.choice(_ERRORS)("no luck"))

    def _time_out(self) -> None:
        """The question of a look-up takes longer than it may."""
        if looks := [call for call in self._calls if call.is_look_up]:
            self._calls.remove(looks[0])
            looks[0].fail(CallTimedOut(50))

    def _end_call(self, call: Call) -> None:
        call.do()
        self._check()
        self._calls.remove(call)
        call.report(call.result)

    def _pass_time(self) -> None:
        # A lease must not run out between its call and the answer.
        if any(call.is_done for call in self._calls):
            return
        self.now += self._random.randint(1, 500)
        self.database.now = int(self.now)
        for intention, until in list(self._inside.items()):
            if until is not None and until <= self.now and intention in self._inside:
                self._inside[intention] = None
                self._carry_out(self.board.expired(intention, self.now))
        if self._wake_at is not None and self._wake_at <= self.now:
            self._wake_at = None
            self.board.due(self.now)
            self._turn()

    def _pause_or_resume(self) -> None:
        group = self._random.choice(GROUPS)
        is_paused = group not in self._paused
        self._paused ^= {group}
        if is_paused:
            # Who may not wait is sent away, whatever there is.
            for intention, there in self._there.items():
                if intention.request.consumer_group == group:
                    there.clear()
        self._carry_out(self.board.group_paused(group, is_paused, self.now))
        self._turn()

    def _turn(self) -> None:
        # A walk is urgent as soon as the turn has given out what was ready.
        pools = self.board._state.pools
        urgent = [pool for pool in pools if pool.is_look_up_urgent() or pool.is_walking]
        actions = self.board.turn(self.now, free_slots=SLOTS - self._busy_slots)
        self._check_distance(actions, urgent)
        self._carry_out(actions)

    # Actions.

    def _carry_out(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Answer(intention, result):
                    self._take_answer(intention, result)
                case Lease():
                    self._lease(action)
                case Fetch():
                    self._fetch(action)
                case HandBack():
                    self._hand_back(action)
                case StartLookUp(look_up):
                    self._start(look_up)
                case Forget(key):
                    self._known.pop(key, None)
                case WakeAt(at_ms):
                    self._wake_at = min(at_ms, self._wake_at or at_ms)

    def _take_answer(self, intention: Intention, result: Any) -> None:
        assert intention in self._inside, f"{intention.request} was answered twice, or has left"
        del self._inside[intention]
        assert not isinstance(result, CallTimedOut), "a pop failed because a look-up was slow"
        there = self._there.pop(intention, set()) - self._going_to_others(intention)
        grants = () if isinstance(result, QueenError) else result.grants
        self.answered += 1
        self.delivered += len(grants)
        if not isinstance(result, QueenError) and not grants:
            assert not there, f"{intention.request} got nothing while there was something for it"

    def _going_to_others(self, intention: Intention) -> set[UUID]:
        """Return partitions that later pops get while this one is away in a call."""
        group = intention.request.consumer_group
        return {
            one
            for number, (whose, partition_ids) in self._tried.items()
            if number > intention.number and whose == group
            for one in partition_ids
        }

    def _lease(self, action: Lease) -> None:
        candidates = candidates_of(action.assignments)
        wanted = tuple(one.partition_id for one in candidates)
        taken = {one for call in self._calls for one in call.partition_ids}
        pairs = [(one.partition_id, one.consumer_group) for one in candidates]
        assert len(set(pairs)) == len(pairs), "a call tries a partition twice for one group"
        assert taken.isdisjoint(wanted), "a partition is in two calls"
        served = {one.pool.consumer_group for one in action.assignments}
        assert served.isdisjoint(self._paused), "a paused group is served"
        for one in action.assignments:
            self._tried[one.intention.number] = (one.pool.consumer_group, one.partition_ids)
        self._busy_slots += 1

        def end(actions: list[Action]) -> None:
            self._carry_out(actions)
            self._turn()

        def free() -> None:
            self._busy_slots -= 1
            for one in action.assignments:
                self._tried.pop(one.intention.number, None)

        def report(grants: list[PopGrant]) -> None:
            free()
            end(self.board.leased(action.assignments, grants, self.now))

        def fail(error: QueenError) -> None:
            for candidate in candidates:
                self._release(candidate.partition_id, candidate.consumer_group, candidate.lease_id)
            free()
            if isinstance(error, StorageUnavailable):
                self.board.lost()
            end(self.board.lease_failed(action.assignments, error, self.now))

        def act() -> list[PopGrant]:
            seen = self.database.see(candidates)
            return self.database.take(candidates, seen, apart_count=APART)

        self._calls.append(Call(act, report, fail, wanted))

    def _fetch(self, action: Fetch) -> None:
        def act() -> list[PopGrant]:
            return [
                one._replace(outcome=PopOutcome.GRANTED, message_count=1) for one in action.leased
            ]

        def report(read: list[PopGrant]) -> None:
            self._carry_out(self.board.fetched(action, read, self.now))
            self._turn()

        def fail(error: QueenError) -> None:
            self._hand_back(HandBack(action.pool, [*action.granted, *action.leased]))
            self._carry_out(self.board.fetch_failed(action, error, self.now))
            self._turn()

        self._calls.append(Call(act, report, fail))

    def _hand_back(self, action: HandBack) -> None:
        group = action.pool.consumer_group
        for one in action.grants:
            self._release(one.partition_id, group, UUID(one.lease_id))
        self._carry_out(self.board.handed_back(action.pool, action.grants))

    def _release(self, partition_id: UUID, group: str, lease_id: UUID) -> None:
        one = next(each for each in self.database.partitions if each.id == partition_id)
        cursor = one.cursor(group)
        if cursor.lease_id == lease_id:
            cursor.lease_id = None

    def _start(self, look_up: LookUp) -> None:
        for other in self._looking:
            assert other.unanswered.keys().isdisjoint(look_up.pools), "a pool is in two look-ups"
        self._looking.append(look_up)
        questions = look_up.questions()
        self._ask(look_up, questions, next(questions, None))

    def _ask(
        self,
        look_up: LookUp,
        questions: Generator[Question, Reply, None],
        question: Question | None,
    ) -> None:
        if question is None:
            self._looking.remove(look_up)
            self.board.looked_up(look_up, self.now)
            self._turn()
            return
        asked_at = self.now

        def report(value: Any) -> None:
            try:
                following = questions.send(Reply(value, asked_at, self.now))
            except StopIteration:
                following = None
            self._ask(look_up, questions, following)

        def fail(error: QueenError) -> None:
            questions.close()
            self._looking.remove(look_up)
            self._carry_out(self.board.look_up_failed(look_up, error, self.now))
            self._turn()

        self._calls.append(Call(lambda: self._reply_to(question), report, fail, is_look_up=True))

    def _reply_to(self, question: Question) -> Any:
        match question:
            case FindNews(queues, horizons):
                pairs = zip(queues, horizons, strict=True)
                return [self.database.find_news(*pair) for pair in pairs]
            case FindPartitions(keys):
                refs = [one.ref for one in self.database.partitions]
                self._known.update({ref.key: ref for ref in refs if ref.key in keys})
                return None
            case HasPending(asks):
                return [self.database.has_pending(ask) for ask in asks]
            case WalkOn(asks):
                return [self.database.walk_on(ask) for ask in asks]
            case _:
                return [self.database.resolve(ask, limit=PAGE) for ask in question.asks]

    # Checks.

    def _deliverable(self, request: PopRequest) -> set[UUID]:
        group = request.consumer_group
        return {
            one.id
            for one in self.database.in_scope(request.scope)
            if one.undelivered(group) and self.database.is_free(one, group)
        }

    def _check(self) -> None:
        for intention, there in self._there.items():
            there &= self._deliverable(intention.request)

    def _check_distance(self, actions: list[Action], urgent: list[Pool]) -> None:
        """Look-ups keep their distance, unless a pool has news or one is made to find a fault."""
        for action in actions:
            if not isinstance(action, StartLookUp) or action.look_up.members.intersection(urgent):
                continue
            is_slow = any(pool.slowness for pool in action.look_up.pools)
            distance_ms = self.now - self._spaced_at[is_slow]
            assert distance_ms >= INTERVAL_MS, "a look-up without news came early"
            self._spaced_at[is_slow] = self.now

    def _check_wakes(self) -> None:
        """Once all calls have ended, nobody waits beside a partition that is known to be ready.

        Time stands still meanwhile, so that no timer makes up for a wake that was lost.
        """
        self._turn()
        while self._calls:
            self._end_call(self._calls[0])
        for pool in self.board._state.pools:
            is_idle = pool.waiting_count and pool.ready
            assert not is_idle or pool.consumer_group in self._paused, f"{pool.key} sleeps on"

    def _finish(self) -> None:
        """From now on all goes well; then each pop that can be served has been."""
        for group in sorted(self._paused):
            self._paused.discard(group)
            self._carry_out(self.board.group_paused(group, False, self.now))
        for _ in range(100):
            while self._calls:
                self._end_call(self._calls[0])
            self._turn()
            self.now += 50
            self.database.now = int(self.now)
            if self._wake_at is not None and self._wake_at <= self.now:
                self._wake_at = None
                self.board.due(self.now)
        forgotten = [
            intention.request
            for intention in self._inside
            if intention.request.wait_ms is None or self._deliverable(intention.request)
        ]
        assert not forgotten, f"these wait in vain: {forgotten}"
        self._carry_out(self.board.closed(self.now))
        while self._calls:
            self._end_call(self._calls[0])
        assert not self._inside, "a pop has no answer"


def _assignment(intention: Intention, partition_id: UUID) -> Any:
    return intention, None, [partition_id], 0
