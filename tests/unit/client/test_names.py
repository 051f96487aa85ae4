"""Programs written for the official client find its names here, also where they name arguments."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import queen as official
from queen.admin.admin import Admin as OfficialAdmin
from queen.builders.consume_builder import ConsumeBuilder
from queen.builders.dlq_builder import DLQBuilder
from queen.builders.operation_builder import OperationBuilder
from queen.builders.push_builder import PushBuilder
from queen.builders.queue_builder import QueueBuilder
from queen.builders.transaction_builder import TransactionBuilder, TransactionQueueBuilder

from queenmq import Queen
from queenmq.client.admin import Admin
from queenmq.client.builders import DeadLetterQuery, Operation, Push
from queenmq.client.consume.consumption import Consumption
from queenmq.client.options import Options
from queenmq.client.queue import Queue
from queenmq.client.transaction import Transaction, TransactionQueue

PAIRS: list[tuple[type, type]] = [
    (official.Queen, Queen),
    (QueueBuilder, Queue),
    (PushBuilder, Push),
    (OperationBuilder, Operation),
    (ConsumeBuilder, Consumption),
    (DLQBuilder, DeadLetterQuery),
    (TransactionBuilder, Transaction),
    (TransactionQueueBuilder, TransactionQueue),
]


def methods(kind: type) -> dict[str, Any]:
    return {
        name: member
        for name, member in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_")
    }


@pytest.mark.parametrize(("theirs", "ours"), PAIRS, ids=lambda kind: kind.__name__)
def test_every_method_is_there_with_its_arguments(theirs: type, ours: type) -> None:
    mine = methods(ours)
    assert methods(theirs).keys() <= mine.keys()
    for name, method in methods(theirs).items():
        wanted = list(inspect.signature(method).parameters)
        assert list(inspect.signature(mine[name]).parameters)[: len(wanted)] == wanted, name


def test_every_method_of_admin_is_there() -> None:
    assert methods(OfficialAdmin).keys() <= methods(Admin).keys()


def test_every_option_is_there() -> None:
    theirs = set(inspect.signature(official.Queen.__init__).parameters) - {"self", "config"}
    assert theirs <= Options.__annotations__.keys()
    # None there means the default.
    assert Queen("http://localhost", **dict.fromkeys(theirs - {"url", "urls"})) is not None
