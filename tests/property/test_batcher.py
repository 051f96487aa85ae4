"""Laws of the batcher, held against random arrivals, calls, failures and endings."""

from __future__ import annotations

from dataclasses import dataclass

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from queenmq.engine.calls.batcher import Batcher

CALLS_MAX = 3
WEIGHT_MAX = 6

key_sets = st.sets(st.sampled_from("abcdef"), min_size=1, max_size=3)
#: Some pass the limit alone.
weights = st.integers(1, WEIGHT_MAX + 3)


@dataclass(eq=False)
class Entry:
    """A request, numbered by arrival."""

    number: int
    keys: set[str]
    weight: int


@dataclass(eq=False)
class Call:
    """A call in flight and which of its requests were put back already."""

    entries: list[Entry]
    is_put_back: bool = False

    @property
    def keys(self) -> set[str]:
        return set().union(*(entry.keys for entry in self.entries))


class BatcherMachine(RuleBasedStateMachine):
    """The batcher against a plain list of what waits."""

    def __init__(self) -> None:
        super().__init__()
        self.batcher: Batcher[Entry] = Batcher(calls_max=CALLS_MAX, weight_max=WEIGHT_MAX)
        self.arrived = 0
        self.waiting: list[Entry] = []
        self.calls: list[Call] = []
        self.ended: list[Entry] = []
        self.moved_away = 0

    @rule(keys=key_sets, weight=weights)
    def add(self, keys: set[str], weight: int) -> None:
        entry = Entry(self.arrived, keys, weight)
        self.arrived += 1
        self.waiting.append(entry)
        self.batcher.add(entry)

    @rule()
    def take(self) -> None:
        batch = self.batcher.take()
        if len(self.calls) == CALLS_MAX:
            assert not batch, "a call beyond the limit"
        self.check_keys(batch)
        self.check_order(batch)
        self.check_weight(batch)
        self.check_progress(batch)
        self.waiting = [entry for entry in self.waiting if entry not in batch]
        if batch:
            self.calls.append(Call(batch))

    def check_keys(self, batch: list[Entry]) -> None:
        for call in self.calls:
            for entry in batch:
                assert not entry.keys & call.keys, "two calls share a key"

    def check_order(self, batch: list[Entry]) -> None:
        places = [self.waiting.index(entry) for entry in batch]
        assert places == sorted(places)
        for place, entry in zip(places, batch, strict=True):
            for earlier in self.waiting[:place]:
                assert earlier in batch or not earlier.keys & entry.keys, "overtaken"

    def check_weight(self, batch: list[Entry]) -> None:
        assert len(batch) == 1 or sum(entry.weight for entry in batch) <= WEIGHT_MAX

    def check_progress(self, batch: list[Entry]) -> None:
        """The longest waiter leaves as soon as there is a slot and its keys are free."""
        if len(self.calls) < CALLS_MAX and self.waiting:
            first = self.waiting[0]
            if not any(first.keys & call.keys for call in self.calls):
                assert batch[0] is first

    @precondition(lambda self: self.calls)
    @rule(data=st.data())
    def put_back_some(self, data: st.DataObject) -> None:
        """A call stored nothing: some of its requests go again, others are moved away."""
        call = data.draw(st.sampled_from(self.calls))
        if call.is_put_back:
            return
        call.is_put_back = True
        flags = data.draw(
            st.lists(st.booleans(), min_size=len(call.entries), max_size=len(call.entries))
        )
        again = [entry for entry, flag in zip(call.entries, flags, strict=True) if flag]
        self.moved_away += len(call.entries) - len(again)
        self.waiting[:0] = again
        self.batcher.put_back(again)

    @precondition(lambda self: self.calls)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        call = data.draw(st.sampled_from(self.calls))
        self.calls.remove(call)
        self.batcher.finish(call.entries)
        if not call.is_put_back:
            self.ended += call.entries

    @invariant()
    def nothing_is_lost_or_doubled(self) -> None:
        assert len(self.batcher) == len(self.waiting)
        assert self.batcher.calls == len(self.calls)
        in_flight = sum(len(call.entries) for call in self.calls if not call.is_put_back)
        counted = len(self.waiting) + in_flight + len(self.ended) + self.moved_away
        assert counted == self.arrived

    @invariant()
    def requests_of_one_key_end_in_arrival_order(self) -> None:
        for key in "abcdef":
            numbers = [entry.number for entry in self.ended if key in entry.keys]
            assert numbers == sorted(numbers)

    def teardown(self) -> None:
        """Whatever happened, everything that waits gets its call in the end."""
        while self.waiting or self.calls:
            self.take()
            assert self.calls, "requests wait and nothing is in flight"
            call = self.calls.pop(0)
            self.batcher.finish(call.entries)
            if not call.is_put_back:
                self.ended += call.entries
            self.requests_of_one_key_end_in_arrival_order()


TestBatcher = BatcherMachine.TestCase
TestBatcher.settings = settings(max_examples=150, stateful_step_count=40)
