"""Every error that a request can meet has a status, the one that the error tree announces."""

from __future__ import annotations

import inspect
import json
import re

import pytest

from queenmq import errors
from queenmq.server.answers import error_responses
from queenmq.server.answers.error_responses import (
    ERRORS,
    body_of,
    retry_after_s,
    row_of,
    status_of,
)
from queenmq.server.edge import answers
from queenmq.server.edge.refusal import Refused

KINDS = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, errors.QueenError)
]
#: Caught on the way or raised at the start only; if one gets through, the server is at fault.
INTERNAL = {
    errors.QueenError,
    errors.SettingsError,
    errors.MigrationError,
    errors.EncryptionStale,
    errors.MoveError,
    errors.PartitionGone,
    errors.ClaimLost,
    errors.KeyKnown,
    errors.TransactionRefused,
}
ANNOUNCED = {
    name: int(status)
    for name, status in re.findall(r"[├└]── (\w+) .*\((\d{3})\)$", errors.__doc__ or "", re.M)
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_error_has_a_status(kind: type[errors.QueenError]) -> None:
    is_listed = any(issubclass(kind, row.kind) for row in ERRORS)
    assert is_listed or kind in INTERNAL, f"{kind.__name__} needs a row in ERRORS"
    assert (status_of(kind("text")) == 500) is (kind in INTERNAL)


@pytest.mark.parametrize("name", ANNOUNCED)
def test_the_status_is_the_announced_one(name: str) -> None:
    assert status_of(getattr(errors, name)("text")) == ANNOUNCED[name]


def test_statuses_are_announced() -> None:
    assert len(ANNOUNCED) >= 6


def test_every_error_stands_in_the_tree() -> None:
    assert {kind.__name__ for kind in KINDS} <= set(re.findall(r"\w+", errors.__doc__ or ""))


def test_the_most_specific_row_comes_first() -> None:
    for place, row in enumerate(ERRORS):
        for later in ERRORS[place + 1 :]:
            assert not issubclass(later.kind, row.kind), f"{later.code} can never be reached"


def test_codes_are_words_and_each_stands_for_one_kind() -> None:
    codes = [row.code for row in ERRORS]
    assert len(set(codes)) == len(codes)
    edge = set(answers.CODES.values())
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", code) for code in {*codes, *edge})
    # One word may be told by the edge and by a route, with the same status.
    shared = {row.code: row.status for row in ERRORS if row.code in edge}
    assert all(answers.CODES[status] == code for code, status in shared.items())


@pytest.mark.parametrize("status", answers.CODES)
def test_the_edge_gives_a_code_as_well(status: int) -> None:
    body = json.loads(answers.encode_refusal(Refused(status, "why")).partition(b"\r\n\r\n")[2])
    assert body == {"error": "why", "code": answers.CODES[status]}


def test_a_lost_lease_and_another_conflict_are_told_apart() -> None:
    kinds = (errors.LeaseLost, errors.Conflict)
    assert [status_of(kind("text")) for kind in kinds] == [409, 409]
    assert [row_of(kind("text")).code for kind in kinds] == ["lease_lost", "conflict"]


def test_a_defect_has_a_code_and_no_details() -> None:
    assert body_of(errors.QueenError("text"))["code"] == error_responses.DEFECT.code


def test_codes_of_the_database_are_distinct() -> None:
    codes = [value for name, value in vars(errors).items() if name.isupper() and name != "UUID"]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"QN\d{3}", code) for code in codes)


def test_only_those_that_may_pass_by_themselves_say_when_to_try_again() -> None:
    waits = {kind.__name__: retry_after_s(kind("text")) for kind in KINDS}
    assert {name for name, seconds in waits.items() if seconds is not None} == {
        "AccessRefused",
        "CallTimedOut",
        "DecryptionFailed",
        "EncryptionKeyMissing",
        "OperationQueueFull",
        "Overloaded",
        "PartitionBusy",
        "SpoolFailed",
        "SpoolFull",
        "StorageFault",
        "StorageUnavailable",
    }
    assert waits["StorageUnavailable"] == 1


def test_an_overload_says_how_deep_and_how_long() -> None:
    error = errors.Overloaded("7 wait; try again", depth=7, retry_after_s=12)
    assert retry_after_s(error) == 12
    assert body_of(error) == {
        "error": "7 wait; try again",
        "code": "overloaded",
        "depth": 7,
        "retryAfter": 12,
    }
    assert body_of(errors.NotFound("text")) == {"error": "text", "code": "not_found"}


def test_a_fault_of_the_database_names_no_role_or_table() -> None:
    error = errors.StorageFault("permission denied for table messages", code="42501")
    text = body_of(error)["error"]
    assert "42501" in text and "messages" not in text


def test_callers_are_not_told_what_is_for_operators() -> None:
    error = errors.StorageUnavailable("no PostgreSQL answers at db1; try again", public="later")
    assert body_of(error)["error"] == "later"
    assert body_of(errors.NotFound("queue 'a' is gone"))["error"] == "queue 'a' is gone"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_what_storage_says_is_for_operators_unless_it_says_otherwise(
    kind: type[errors.QueenError],
) -> None:
    storage = (errors.StorageUnavailable, errors.StorageRejected, errors.SpoolFailed)
    # They are written for callers, who have to know which key is missing.
    sealed = (errors.EncryptionKeyMissing, errors.DecryptionFailed)
    is_for_operators = issubclass(kind, storage) and not issubclass(kind, sealed)
    error = kind('relation "messages" of db1')
    assert errors.is_confidential(error) is is_for_operators
    assert ("messages" in body_of(error)["error"]) is not is_for_operators
