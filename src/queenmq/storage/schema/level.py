"""Decides what a release may do to a schema, and which releases may share one. Pure.

A release that changes anything in `sql/` has a schema level of its own, one above that of the
release before. Levels N and N+1 may use a database side by side. The database records its level and
the oldest level whose brokers may still use it; the two are equal once an upgrade is finished.
ADR 18 has the reasons.
"""

from __future__ import annotations

from typing import NamedTuple

from queenmq.errors import MigrationError

#: The number of the last migration of every released level, level 1 first. The first change in
#: `sql/` after a release appends the number of that release's last migration.
RELEASED = (14, 32)

#: The level of this release.
LEVEL = len(RELEASED) + 1


class SchemaState(NamedTuple):
    """A database's record of its schema."""

    level: int
    oldest_level: int
    release: str

    @property
    def is_finished(self) -> bool:
        """Return whether only releases of this level may use the database."""
        return self.oldest_level == self.level


class Plan(NamedTuple):
    """The changes of a release to a schema."""

    #: Drop what an earlier upgrade has kept for the release before it.
    drops_leftovers: bool
    #: The newest level whose `post` migrations are due.
    post_level: int
    after: SchemaState


#: The database of a release that recorded no level yet.
FIRST = SchemaState(level=1, oldest_level=1, release="0.1.0")


def plan_start(found: SchemaState | None, *, release: str, level: int = LEVEL) -> Plan | None:
    """Return the changes of a start, or None to run on a newer schema without changes.

    Raises MigrationError if brokers of this level may no longer use the database.
    """
    if found is None:
        return Plan(False, level, SchemaState(level, level, release))
    if found.level < level:
        # Brokers two levels below may no longer run, so functions kept for them can go.
        return Plan(True, level - 1, SchemaState(level, level - 1, release))
    if found.level == level:
        return Plan(False, level if found.is_finished else level - 1, found)
    if found.oldest_level > level:
        raise MigrationError(
            f"this Queen {release} is too old for the database: it has schema level {level}, but"
            f" Queen {found.release} has upgraded the database to level {found.level} for good;"
            f" start Queen {found.release} or later"
        )
    return None


def plan_finish(found: SchemaState | None, *, release: str, level: int = LEVEL) -> Plan:
    """Return the changes that finish an upgrade. Raises MigrationError if another release must."""
    if found is not None and found.level > level:
        raise MigrationError(
            f"Queen {found.release} has upgraded the database to schema level {found.level}, above"
            f" level {level} of this Queen {release}; finish the upgrade with that release"
        )
    return Plan(True, level, SchemaState(level, level, release))


def level_of_migration(number: int, released: tuple[int, ...] = RELEASED) -> int:
    """Return the level that a migration belongs to."""
    return 1 + sum(number > last for last in released)
