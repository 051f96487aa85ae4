"""Series in shared memory: several workers tell one story, and death makes no counter fall."""

from __future__ import annotations

import os

import pytest
from prometheus_client.parser import text_string_to_metric_families

from queenmq.metrics.cells import PLACE_BYTES, Memory, make_shared
from queenmq.metrics.registry import Registry
from queenmq.metrics.text import encode


@pytest.fixture
def fd() -> int:
    return make_shared(2)


def scrape(registry: Registry) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    text = "".join(encode(registry.collect())).encode("utf-8", "replace").decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def worker(fd: int, place: int, *, is_alive: bool = True) -> Registry:
    return Registry(Memory(fd), place, is_alive=lambda _: is_alive)


def test_any_worker_tells_the_sum_of_all(fd: int) -> None:
    workers = [worker(fd, 0), worker(fd, 1)]
    for number, registry in enumerate(workers, 1):
        registry.counter("queen_a", "A counter.").inc(number)
        registry.counters("queen_b", "With labels.", "kind").of(f"k{number}").inc()
        registry.gauge("queen_sum", "A gauge.", read=lambda number=number: number)
        registry.gauge("queen_max", "A gauge.", read=lambda number=number: number, merge="max")
        registry.gauges("queen_each", "A gauge.", "host", merge="each").of("h").set(number)
        histogram = registry.histogram("queen_h", "A histogram.", bounds=(1, 10))
        for value in (0.5, 1, 5, 50):
            histogram.observe(value)
        registry.publish()
    told = scrape(workers[0])
    assert told == scrape(workers[1])
    assert told["queen_a_total", ()] == 3
    assert told["queen_b_total", (("kind", "k1"),)] == told["queen_b_total", (("kind", "k2"),)] == 1
    assert told["queen_sum", ()] == 3
    assert told["queen_max", ()] == 2
    pid = str(os.getpid())
    for place, value in (("0", 1), ("1", 2)):
        labels = (("host", "h"), ("pid", pid), ("worker_id", place))
        assert told["queen_each", labels] == value
    assert told["queen_h_bucket", (("le", "1.0"),)] == 4
    assert told["queen_h_bucket", (("le", "10.0"),)] == 6
    assert told["queen_h_bucket", (("le", "+Inf"),)] == told["queen_h_count", ()] == 8
    assert told["queen_h_sum", ()] == 2 * 56.5


def test_a_worker_in_the_place_of_a_dead_one_goes_on_counting(fd: int) -> None:
    first = worker(fd, 0)
    first.counter("queen_a", "A counter.").inc(5)
    first.counter("queen_cpu", "Measured elsewhere.", read=lambda: 7.0)
    first.gauges("queen_g", "A gauge.", "queue").of("gone").set(3)
    first.publish()
    second = worker(fd, 0)
    # Other names first: the place of a number must not depend on the order of the names.
    second.gauges("queen_g", "A gauge.", "queue").of("new").set(1)
    second.counter("queen_cpu", "Measured elsewhere.", read=lambda: 1.0)
    second.counter("queen_a", "A counter.").inc()
    told = scrape(second)
    assert told["queen_a_total", ()] == 6
    assert told["queen_cpu_total", ()] == 8
    assert told["queen_g", (("queue", "gone"),)] == 0
    assert told["queen_g", (("queue", "new"),)] == 1


def test_a_dead_worker_keeps_its_counts_and_loses_its_gauges(fd: int) -> None:
    dead = worker(fd, 1)
    dead.counter("queen_a", "A counter.").inc(5)
    dead.gauge("queen_g", "A gauge.", read=lambda: 4.0)
    dead.publish()
    left = worker(fd, 0, is_alive=False)
    left.counter("queen_a", "A counter.").inc()
    left.gauge("queen_g", "A gauge.", read=lambda: 1.0)
    told = scrape(left)
    assert told["queen_a_total", ()] == 6
    assert ("queen_g", ()) not in told


def test_series_that_another_worker_adds_later_are_told(fd: int) -> None:
    left, right = worker(fd, 0), worker(fd, 1)
    left.counters("queen_a", "A counter.", "kind").of("x").inc()
    assert scrape(left) == {("queen_a_total", (("kind", "x"),)): 1}
    kinds = right.counters("queen_a", "A counter.", "kind")
    for kind in ("x", "y"):
        kinds.of(kind).inc()
    expected = {("queen_a_total", (("kind", kind),)): count for kind, count in [("x", 2), ("y", 1)]}
    assert scrape(left) == scrape(right) == expected


def test_a_scrape_has_the_numbers_of_one_moment(fd: int) -> None:
    registry = worker(fd, 0)
    counters = [registry.counter(f"queen_{name}", "A counter.") for name in "ab"]
    families = registry.collect()
    first = next(families)
    for counter in counters:
        counter.inc()
    registry.counter("queen_c", "Made between two slices.")
    told = {one.name: [sample.value for sample in one.samples] for one in (first, *families)}
    assert told == {"queen_a": [0], "queen_b": [0]}


def test_scrapes_that_overlap_do_not_disturb_each_other(fd: int) -> None:
    registry = worker(fd, 0)
    kinds = [registry.counters(f"queen_{name}", "A counter.", "kind") for name in "ab"]
    for family in kinds:
        family.of("x").inc()
    slow = registry.collect()
    next(slow)
    for family in kinds:
        family.of("y").inc()
    assert [len(list(one.samples)) for one in registry.collect()] == [2, 2]
    assert [len(list(one.samples)) for one in slow] == [1]


def test_more_label_values_than_there_is_room_for_are_told_as_one() -> None:
    registry = Registry()
    registry.counter("queen_before", "Made at the start.")
    family = registry.counters("queen_a", "A counter.", "queue")
    family.of("other")
    names = [f"{number:>0900}" for number in range(PLACE_BYTES // 900)]
    for name in names:
        family.of(name).inc()
    samples = list(next(one for one in registry.collect() if one.name == "queen_a").samples)
    assert len(samples) < len(names)
    assert sum(sample.value for sample in samples) == len(names)
    assert registry.sum("queen_a", queue="other") > 0


@pytest.mark.parametrize("value", ['a"b', "a\\b", "a\nb", "\x00", "é✓", "", "a,b={}", "\udcff"])
def test_any_label_survives(value: str) -> None:
    registry = Registry()
    registry.counters("queen_a", "With\na line \\ break.", "queue").of(value).inc()
    ((_, labels),) = scrape(registry)
    expected = value.replace("\x00", "").encode("utf-8", "replace").decode()
    assert labels == (("queue", expected),)


@pytest.mark.parametrize("value", [0.0, -1.5, 1e300, float("inf"), float("-inf"), 0.1, 2.0**60])
def test_any_value_survives(value: float) -> None:
    registry = Registry()
    registry.gauge("queen_g", "A gauge.").set(value)
    assert scrape(registry) == {("queen_g", ()): value}


def test_a_name_has_one_kind() -> None:
    registry = Registry()
    registry.counter("queen_a", "A counter.")
    with pytest.raises(AssertionError, match="queen_a"):
        registry.gauge("queen_a", "A gauge.")
