"""Turns facts about the whole system into current problems. Pure: no clock, no I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from queenmq.engine.diagnosis.findings import Finding

#: Operations that wait for longer than this are worth a look.
_OPERATIONS_WAIT_S = 60.0
#: A transaction that is open for longer keeps dead rows in every table.
_XMIN_HELD_S = 600.0
_XMIN_AGE = 5_000_000
#: Findings that explain why a group is late. The others are remarks.
_IDLE = frozenset(("no_backlog", "consumers_waiting", "last_dead_letter", "no_consumer_waiting"))
#: Troubles of all queues together that /health does not show to every caller.
_OF_ALL = frozenset(("operations_waiting", "xmin_held"))
#: Troubles of queues that one answer has.
_TOLD_MAX = {"groups": 20, "letters": 10}


class CapabilityFacts(NamedTuple):
    """The state of one kind of request, as in /health."""

    name: str
    status: str
    reason: str | None
    is_well: bool


class LateGroup(NamedTuple):
    """A consumer group that leaves messages of a queue waiting."""

    queue: str
    consumer_group: str
    messages: int
    partitions: int
    oldest_s: float
    #: The reason, if it was asked for.
    finding: Finding | None = None


class DeadLetters(NamedTuple):
    """New dead letters of a queue, and the error of the last, None where it is not shown."""

    queue: str
    letters: int
    error: str | None


class XminHolder(NamedTuple):
    """The holder of the oldest xmin, which keeps dead rows from being removed."""

    what: str
    xid_age: int
    seconds: float | None


class OverallFacts(NamedTuple):
    """All facts. The last three are empty while the database is away."""

    capabilities: Sequence[CapabilityFacts]
    #: Sentences of /health about what a person has to look at.
    problems: Sequence[str]
    is_push_paused: bool
    is_pop_paused: bool
    spooled: int
    operations_waiting: int
    operations_oldest_s: float
    late_groups: Sequence[LateGroup] = ()
    dead_letters: Sequence[DeadLetters] = ()
    xmin_holders: Sequence[XminHolder] = ()


class Trouble(NamedTuple):
    """One thing that is wrong, or worth knowing."""

    code: str
    #: error, warning or info.
    severity: str
    message: str
    action: str
    queue: str | None = None
    consumer_group: str | None = None


def find_troubles(facts: OverallFacts) -> list[Trouble]:
    """Return the problems, most severe first."""
    return [
        *_capabilities(facts),
        *_problems(facts),
        *_switches(facts),
        *_waiting_pushes(facts),
        *_groups(facts.late_groups),
        *_letters(facts.dead_letters),
        *_holders(facts.xmin_holders),
    ]


def select_troubles(
    troubles: Sequence[Trouble], reaches: Callable[[str], bool] | None
) -> list[Trouble]:
    """Return the troubles that a caller may see. `reaches` is None for all queues.

    A limited caller sees no queue out of reach, no count of all queues and no session of the
    database. The bounds apply last, so that troubles of other queues crowd out none.
    """
    told: list[Trouble] = []
    counts: Counter[str] = Counter()
    for one in troubles:
        if reaches is not None:
            is_within = one.code not in _OF_ALL if one.queue is None else reaches(one.queue)
            if not is_within:
                continue
        kind = "letters" if one.code == "dead_letters" else "groups"
        counts[kind] += one.queue is not None
        if one.queue is None or counts[kind] <= _TOLD_MAX[kind]:
            told.append(one)
    return told


def summarize(troubles: Sequence[Trouble], *, is_complete: bool) -> str:
    """Sum up the state in one sentence."""
    if troubles:
        first, rest = troubles[0].message, len(troubles) - 1
        more = f" There {'is' if rest == 1 else 'are'} {rest} more to look at." if rest else ""
        return f"{first}{more}"
    return "Everything flows." if is_complete else "The database does not answer."


def _capabilities(facts: OverallFacts) -> Iterator[Trouble]:
    by_reason: dict[tuple[str, str | None], list[str]] = {}
    for one in facts.capabilities:
        if not one.is_well:
            by_reason.setdefault((one.status, one.reason), []).append(one.name)
    for (status, reason), names in by_reason.items():
        kinds = ", ".join(names)
        yield Trouble(
            f"requests_{status}",
            "error",
            f"Requests are {status} because of {reason or 'a fault'}: {kinds}.",
            "See capabilities in docs/api.md for the reason, and the broker's log for details.",
        )


def _problems(facts: OverallFacts) -> Iterator[Trouble]:
    for text in facts.problems:
        sentence, _, action = text.partition("; ")
        yield Trouble("problem", "error", f"{_capital(sentence)}.", f"{_capital(action)}.")


def _switches(facts: OverallFacts) -> Iterator[Trouble]:
    if facts.is_pop_paused:
        yield Trouble(
            "pops_paused",
            "warning",
            "Pops are paused on all brokers by maintenance mode.",
            "Switch maintenance mode for pops off when the work is done.",
        )
    if facts.is_push_paused:
        yield Trouble(
            "pushes_buffered",
            "warning",
            "Maintenance mode is on: brokers keep new pushes on disk.",
            "Switch maintenance mode off when the work is done.",
        )


def _waiting_pushes(facts: OverallFacts) -> Iterator[Trouble]:
    if facts.spooled and not facts.is_push_paused:
        yield Trouble(
            "spool_ahead",
            "warning",
            f"{_count(facts.spooled, 'push request waits', 'push requests wait')} on this"
            " broker's disk to be stored.",
            "Wait. If the number does not fall, check the database and the broker's log.",
        )
    if facts.operations_waiting and facts.operations_oldest_s > _OPERATIONS_WAIT_S:
        count = _count(facts.operations_waiting, "accepted push waits", "accepted pushes wait")
        yield Trouble(
            "operations_waiting",
            "warning",
            f"{count} in the operation queue, the oldest for {_span(facts.operations_oldest_s)}.",
            "Check the load of the brokers and the database.",
        )


def _groups(groups: Sequence[LateGroup]) -> Iterator[Trouble]:
    for one in groups:
        found = one.finding if one.finding and one.finding.code not in _IDLE else None
        is_stuck = found is not None and found.code in ("blocked_by_poison", "operation_failed")
        reason = f" {_capital(found.message)}." if found else ""
        yield Trouble(
            "group_stuck" if is_stuck else "group_late",
            "error" if is_stuck else "warning",
            f"Group {one.consumer_group!r} has left"
            f" {_count(one.messages, 'message', 'messages')} of queue {one.queue!r} waiting for"
            f" {_span(one.oldest_s)}.{reason}",
            f"{_capital(found.action)}." if found else "Start consumers, or more of them.",
            one.queue,
            one.consumer_group,
        )


def _letters(letters: Sequence[DeadLetters]) -> Iterator[Trouble]:
    for one in letters:
        count = _count(one.letters, "new dead letter", "new dead letters")
        error = "" if one.error is None else f" The last error: {one.error}"
        yield Trouble(
            "dead_letters",
            "warning",
            f"Queue {one.queue!r} has {count} of the last hour.{error}",
            "Read the errors, fix their cause, then retry the dead letters.",
            one.queue,
        )


def _holders(holders: Sequence[XminHolder]) -> Iterator[Trouble]:
    for one in holders:
        if (one.seconds or 0.0) > _XMIN_HELD_S or one.xid_age > _XMIN_AGE:
            since = f" for {_span(one.seconds)}" if one.seconds is not None else ""
            yield Trouble(
                "xmin_held",
                "warning",
                f"The {one.what} keeps PostgreSQL from removing dead rows{since}.",
                "End the transaction, or drop the replication slot if nothing reads it.",
            )
            return


def _span(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
