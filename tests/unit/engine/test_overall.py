"""From facts about everything to sentences."""

from __future__ import annotations

from queenmq.engine.diagnosis.findings import Finding
from queenmq.engine.diagnosis.overall import (
    CapabilityFacts,
    DeadLetters,
    LateGroup,
    OverallFacts,
    Trouble,
    XminHolder,
    find_troubles,
    select_troubles,
    summarize,
)

WELL = OverallFacts(
    capabilities=[CapabilityFacts("push", "stored", None, True)],
    problems=[],
    is_push_paused=False,
    is_pop_paused=False,
    spooled=0,
    operations_waiting=0,
    operations_oldest_s=0.0,
)


def _only(**changes: object) -> Trouble:
    (found,) = find_troubles(WELL._replace(**changes))  # type: ignore[arg-type]
    return found


def test_nothing_wrong_is_said_so_only_when_everything_was_asked() -> None:
    assert find_troubles(WELL) == []
    assert summarize([], is_complete=True) == "Everything flows."
    assert "database" in summarize([], is_complete=False)


def test_kinds_of_requests_with_one_reason_are_one_trouble() -> None:
    names = ("push", "pop", "ack")
    down = [CapabilityFacts(name, "refused", "no_primary", False) for name in names]
    found = _only(capabilities=down)
    assert (found.code, found.severity) == ("requests_refused", "error")
    assert "no_primary" in found.message and "push, pop, ack" in found.message


def test_switches_are_warnings() -> None:
    assert _only(is_pop_paused=True).code == "pops_paused"
    # What waits on disk on purpose is told once.
    assert _only(is_push_paused=True, spooled=4).code == "pushes_buffered"
    assert _only(spooled=4).code == "spool_ahead"


def test_operations_count_once_they_wait_long() -> None:
    assert find_troubles(WELL._replace(operations_waiting=9, operations_oldest_s=5.0)) == []
    found = _only(operations_waiting=9, operations_oldest_s=300.0)
    assert found.code == "operations_waiting" and "5 min" in found.message


def test_problems_of_health_have_message_and_action() -> None:
    found = _only(problems=["2 operations have failed; see queen ops list, then retry"])
    assert found.message == "2 operations have failed."
    assert found.action == "See queen ops list, then retry."


def test_late_groups_come_with_their_reason() -> None:
    late = LateGroup("orders", "billing", 12, 3, 400.0)
    plain = _only(late_groups=[late])
    assert (plain.code, plain.queue, plain.consumer_group) == ("group_late", "orders", "billing")
    assert "12 messages" in plain.message and "7 min" in plain.message
    stuck = _only(
        late_groups=[
            late._replace(finding=Finding("blocked_by_poison", "it is blocked", "skip it"))
        ]
    )
    assert (stuck.code, stuck.severity, stuck.action) == ("group_stuck", "error", "Skip it.")
    idle = _only(late_groups=[late._replace(finding=Finding("no_backlog", "all passed", "wait"))])
    assert "passed" not in idle.message.split(".", 1)[1]


def test_dead_letters_and_held_xmin() -> None:
    letters = _only(dead_letters=[DeadLetters("orders", 1, "card declined")])
    assert letters.queue == "orders" and "1 new dead letter of" in letters.message
    assert find_troubles(WELL._replace(xmin_holders=[XminHolder("process 1", 5, 2.0)])) == []
    held = [XminHolder("process 1", 5, 4_000.0), XminHolder("process 2", 4, 3_000.0)]
    assert _only(xmin_holders=held).code == "xmin_held"
    slot = _only(xmin_holders=[XminHolder("replication slot s", 9_000_000, None)])
    assert "replication slot s" in slot.message


def test_the_summary_is_the_first_trouble_and_a_count() -> None:
    first = Trouble("a", "error", "It broke.", "Mend it.")
    assert summarize([first], is_complete=True) == "It broke."
    assert summarize([first, first, first], is_complete=True).endswith(
        "There are 2 more to look at."
    )


def test_a_limited_caller_is_told_of_its_own_queues_however_many_others_are_late() -> None:
    late = [LateGroup(f"b.{n}", "g", 1, 1, 100.0) for n in range(50)]
    facts = WELL._replace(
        spooled=1,
        operations_waiting=9,
        operations_oldest_s=300.0,
        late_groups=[*late, LateGroup("a.mine", "g", 1, 1, 90.0)],
        dead_letters=[
            *(DeadLetters(f"b.{n}", 5, "theirs") for n in range(50)),
            DeadLetters("a.mine", 1, "mine"),
        ],
        xmin_holders=[XminHolder("transaction of process 7 (their job)", 1, 5_000.0)],
    )
    troubles = find_troubles(facts)
    mine = select_troubles(troubles, lambda queue: queue.startswith("a."))
    assert [(one.code, one.queue) for one in mine] == [
        ("spool_ahead", None),
        ("group_late", "a.mine"),
        ("dead_letters", "a.mine"),
    ]
    everything = select_troubles(troubles, None)
    codes = [one.code for one in everything]
    assert (codes.count("group_late"), codes.count("dead_letters")) == (20, 10)
    assert {"operations_waiting", "xmin_held"} < set(codes)
