"""The batcher: which waiting requests go into the next call. Its laws are in tests/property."""

from __future__ import annotations

from dataclasses import dataclass

from queenmq.engine.calls.batcher import Batcher


@dataclass(eq=False)
class Entry:
    """A waiting request."""

    keys: set[str]
    weight: int = 1


def make_batcher(*entries: Entry, calls_max: int = 2, weight_max: int = 10) -> Batcher[Entry]:
    batcher: Batcher[Entry] = Batcher(calls_max=calls_max, weight_max=weight_max)
    for entry in entries:
        batcher.add(entry)
    return batcher


def test_take_is_empty_when_nothing_waits() -> None:
    assert make_batcher().take() == []


def test_take_joins_everything_that_has_gathered() -> None:
    entries = [Entry({"a"}), Entry({"b"}), Entry({"a"})]
    batcher = make_batcher(*entries)
    assert batcher.take() == entries
    assert len(batcher) == 0
    assert batcher.calls == 1


def test_take_waits_for_a_free_slot() -> None:
    first, second = Entry({"a"}), Entry({"b"})
    batcher = make_batcher(first, calls_max=1)
    batch = batcher.take()
    batcher.add(second)
    assert batcher.take() == []
    batcher.finish(batch)
    assert batcher.take() == [second]


def test_take_passes_over_keys_in_flight() -> None:
    batcher = make_batcher(Entry({"a"}))
    batcher.take()
    held, free = Entry({"a"}), Entry({"b"})
    batcher.add(held)
    batcher.add(free)
    assert batcher.take() == [free]
    assert len(batcher) == 1


def test_a_request_that_is_held_back_holds_back_later_ones_with_its_keys() -> None:
    batcher = make_batcher(Entry({"a"}))
    first = batcher.take()
    both, other = Entry({"a", "b"}), Entry({"b"})
    batcher.add(both)
    batcher.add(other)
    assert batcher.take() == []
    batcher.finish(first)
    assert batcher.take() == [both, other]


def test_take_stops_before_the_weight_limit_is_passed() -> None:
    entries = [Entry({str(number)}, weight=4) for number in range(3)]
    batcher = make_batcher(*entries, weight_max=10)
    assert batcher.take() == entries[:2]
    assert batcher.take() == entries[2:]


def test_one_request_may_pass_the_weight_limit_alone() -> None:
    large, small = Entry({"a"}, weight=11), Entry({"b"})
    batcher = make_batcher(large, small, weight_max=10)
    assert batcher.take() == [large]
    assert batcher.take() == [small]


def test_the_first_is_the_one_that_came_first() -> None:
    first, second = Entry({"a"}), Entry({"b"})
    batcher = make_batcher(first, second)
    assert batcher.first is first
    batch = batcher.take()
    assert batcher.first is None
    late = Entry({"c"})
    batcher.add(late)
    assert batcher.first is late
    batcher.put_back(batch)
    assert batcher.first is first


def test_put_back_keeps_the_place_before_all_others() -> None:
    first, second, third = Entry({"a"}), Entry({"b"}), Entry({"c"})
    batcher = make_batcher(first, second)
    batch = batcher.take()
    batcher.add(third)
    batcher.put_back(batch)
    batcher.finish(batch)
    assert batcher.take() == [first, second, third]


def test_finish_frees_the_slot_and_the_keys() -> None:
    batcher = make_batcher(Entry({"a"}), calls_max=1)
    batcher.finish(batcher.take())
    again = Entry({"a"})
    batcher.add(again)
    assert batcher.calls == 0
    assert batcher.take() == [again]


def test_finish_frees_what_take_claimed_when_the_keys_of_an_entry_change_in_flight() -> None:
    # A push whose partition was deleted gets the new partition's id while its call is under way.
    moved, rival = Entry({"old"}), Entry({"new"})
    batcher = make_batcher(moved)
    first_call = batcher.take()
    batcher.add(rival)
    assert batcher.take() == [rival]
    moved.keys = {"new"}
    batcher.finish(first_call)
    later_old, later_new = Entry({"old"}), Entry({"new"})
    batcher.add(later_old)
    batcher.add(later_new)
    assert batcher.take() == [later_old], "the old key is free, the new one is in flight"


def test_scan_is_bounded_when_one_busy_key_has_a_long_row() -> None:
    batcher = make_batcher(Entry({"busy"}), weight_max=2)
    batcher.take()
    looked_at = []

    class Counted(Entry):
        @property
        def keys(self) -> set[str]:  # type: ignore[override]
            looked_at.append(self)
            return {"busy"}

        @keys.setter
        def keys(self, _: set[str]) -> None: ...

    for _ in range(1_000):
        batcher.add(Counted(set()))
    assert batcher.take() == []
    assert len(set(map(id, looked_at))) == 8, "four times the weight limit"
    assert len(batcher) == 1_000
