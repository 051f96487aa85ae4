"""The state of each kind of request in /health."""

from __future__ import annotations

import pytest

from queenmq.engine.load.pressure import OperationType
from queenmq.server.answers.capabilities import NAMES, Capability, Circumstances, Failure, judge

WELL = Circumstances(
    outage=None,
    failures={},
    is_push_paused=False,
    is_pop_paused=False,
    spooled=0,
    drain_trouble=None,
    spool_trouble=None,
)
NOW = 100_000.0


def test_all_is_well_by_default() -> None:
    found = judge(WELL, NOW)
    assert tuple(found) == NAMES
    assert found["push"] == Capability("stored")
    assert {found[name] for name in NAMES[1:]} == {Capability("served")}


def test_outage_leaves_the_spool() -> None:
    found = judge(WELL._replace(outage="unreachable"), NOW)
    assert found["push"] == Capability("spooled", "unreachable", is_well=False)
    assert found["push"].is_accepted
    for name in NAMES[1:]:
        assert found[name] == Capability("refused", "unreachable", is_well=False)
        assert not found[name].is_accepted


@pytest.mark.parametrize("trouble", ["spool_full", "spool_failed"])
def test_outage_without_a_spool_refuses_pushes(trouble: str) -> None:
    found = judge(WELL._replace(outage="no_answer", spool_trouble=trouble), NOW)
    assert found["push"] == Capability("refused", trouble, is_well=False)


def test_trouble_of_a_spool_that_is_not_needed_is_none() -> None:
    assert judge(WELL._replace(spool_trouble="spool_full"), NOW)["push"] == Capability("stored")


def test_spool_that_is_drained_is_as_it_should_be() -> None:
    found = judge(WELL._replace(spooled=5), NOW)
    assert found["push"] == Capability("spooled", "draining")


def test_spool_that_cannot_be_drained_is_not() -> None:
    found = judge(WELL._replace(spooled=5, drain_trouble="disk_full"), NOW)
    assert found["push"] == Capability("spooled", "disk_full", is_well=False)
    assert found["pop"] == Capability("served")


def test_failed_push_explains_a_spool_that_another_process_drains() -> None:
    failures = {OperationType.PUSH: Failure(0.0, "disk_full")}
    stuck = judge(WELL._replace(spooled=5, failures=failures), NOW)
    assert stuck["push"] == Capability("spooled", "disk_full", is_well=False)
    assert judge(WELL._replace(failures=failures), NOW)["push"] == Capability("stored")


def test_maintenance_is_as_it_should_be() -> None:
    found = judge(WELL._replace(is_push_paused=True, is_pop_paused=True, spooled=5), NOW)
    assert found["push"] == Capability("spooled", "maintenance")
    assert found["pop"] == Capability("paused", "maintenance")
    assert found["ack"] == Capability("served")


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (OperationType.POP, "pop"),
        (OperationType.ACK_BATCH, "ack"),
        (OperationType.ACK_SINGLE, "ack"),
        (OperationType.PUSH, "transaction"),
        (OperationType.SYSTEM_EVENT, "admin"),
    ],
)
def test_failure_counts_for_its_kind_and_for_a_while(kind: OperationType, name: str) -> None:
    failed = WELL._replace(failures={kind: Failure(NOW, "disk_full")})
    found = judge(failed, NOW + 9_999)
    refused = [one for one in NAMES if found[one].status == "refused"]
    assert refused == [name] and found[name].reason == "disk_full"
    assert judge(failed, NOW + 10_000)[name] == Capability("served")


def test_a_fault_that_refuses_pushes_is_shown_while_it_is_fresh() -> None:
    failed = {OperationType.PUSH: Failure(NOW - 1_000, "fault")}
    found = judge(WELL._replace(failures=failed), NOW)
    assert found["push"] == Capability("refused", "fault", is_well=False)
    assert judge(WELL._replace(failures=failed), NOW + 60_000)["push"] == Capability("stored")
