"""The releases that may share a schema, and the effect of each start."""

from __future__ import annotations

import pytest

from queenmq.errors import MigrationError
from queenmq.storage.schema.level import (
    LEVEL,
    RELEASED,
    Plan,
    SchemaState,
    level_of_migration,
    plan_finish,
    plan_start,
)

RELEASE = "0.5.0"


def start(found: SchemaState | None) -> Plan | None:
    return plan_start(found, release=RELEASE, level=5)


def finish(found: SchemaState | None) -> Plan:
    return plan_finish(found, release=RELEASE, level=5)


def test_a_fresh_database_gets_everything_at_once() -> None:
    assert start(None) == Plan(False, 5, SchemaState(5, 5, RELEASE))


@pytest.mark.parametrize("oldest", [3, 4])
def test_the_level_before_is_upgraded_and_may_go_on(oldest: int) -> None:
    plan = start(SchemaState(4, oldest, "0.4.0"))
    # Its own upgrade is finished first; what waits for the end of this one waits.
    assert plan == Plan(True, 4, SchemaState(5, 4, RELEASE))


def test_an_upgrade_over_a_level_lets_the_one_between_in() -> None:
    assert start(SchemaState(2, 2, "0.2.0")) == Plan(True, 4, SchemaState(5, 4, RELEASE))


def test_the_own_level_stays_as_far_as_it_was() -> None:
    unfinished, finished = SchemaState(5, 4, "0.5.1"), SchemaState(5, 5, "0.5.1")
    assert start(unfinished) == Plan(False, 4, unfinished)
    assert start(finished) == Plan(False, 5, finished)


def test_the_next_level_is_left_alone_until_it_is_finished() -> None:
    assert start(SchemaState(6, 5, "0.6.0")) is None
    with pytest.raises(
        MigrationError, match=r"this Queen 0\.5\.0 is too old .* start Queen 0\.6\.0"
    ):
        start(SchemaState(6, 6, "0.6.0"))


def test_two_levels_above_is_refused() -> None:
    with pytest.raises(MigrationError, match=r"schema level 5, but .* to level 7"):
        start(SchemaState(7, 6, "0.7.0"))


@pytest.mark.parametrize(
    "found",
    [None, SchemaState(4, 4, "0.4.0"), SchemaState(5, 4, RELEASE), SchemaState(5, 5, RELEASE)],
)
def test_the_end_of_an_upgrade_leaves_one_level(found: SchemaState | None) -> None:
    assert finish(found) == Plan(True, 5, SchemaState(5, 5, RELEASE))


def test_an_older_release_does_not_finish_the_upgrade_of_a_newer_one() -> None:
    with pytest.raises(MigrationError, match="finish the upgrade with that release"):
        finish(SchemaState(6, 5, "0.6.0"))


def test_a_migration_belongs_to_the_level_whose_release_had_it_first() -> None:
    numbers = [1, 14, 15, 20, 21]
    assert [level_of_migration(number, (14, 20)) for number in numbers] == [1, 1, 2, 2, 3]


def test_our_own_level_is_the_one_after_the_last_release() -> None:
    assert len(RELEASED) + 1 == LEVEL
    assert list(RELEASED) == sorted(RELEASED)
