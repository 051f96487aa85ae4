"""Checks of request values: what passes, and sentences that name field, value and remedy."""

from __future__ import annotations

from uuid import UUID

import pytest

from queenmq.engine.requests import QUEUE_MODE
from queenmq.errors import InvalidRequest
from queenmq.server.requests.checks import (
    check_count,
    check_group,
    check_name,
    check_text,
    check_uuid,
    quote,
)


@pytest.mark.parametrize("name", ["a", "a" * 255, "ü" * 255, " ", "a/b", "\n"])
def test_a_name_that_a_column_can_hold_passes(name: str) -> None:
    assert check_name("queue", name, length_max=255) == name


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("", "queue must not be empty; give it 1 to 5 characters"),
        ("abcdef", "queue 'abcdef' has 6 characters; use at most 5"),
        ("a\x00b", r"queue 'a\x00b' contains a NUL character; remove it"),
    ],
    ids=["empty", "long", "nul"],
)
def test_a_bad_name_is_refused_with_field_value_and_remedy(name: str, sentence: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check_name("queue", name, length_max=5)
    assert str(caught.value) == sentence


def test_a_long_value_is_cut_in_a_message() -> None:
    assert quote("x" * 60) == repr("x" * 60)
    assert quote("x" * 61) == repr("x" * 60 + "...")


@pytest.mark.parametrize("text", [None, "", "anything at all"])
def test_free_text_passes(text: str | None) -> None:
    assert check_text("error", text) == text


def test_free_text_with_nul_is_refused() -> None:
    with pytest.raises(InvalidRequest, match=r"error .* contains a NUL character"):
        check_text("error", "a\x00")


def test_a_uuid_is_parsed() -> None:
    text = "0190a8f0-0000-7000-8000-000000000001"
    assert check_uuid("partitionId", text) == UUID(text)


@pytest.mark.parametrize("text", ["", "nonsense", "0" * 36])
def test_a_bad_uuid_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match=f"partitionId '{text}' is not a UUID"):
        check_uuid("partitionId", text)


@pytest.mark.parametrize("group", [None, ""])
def test_no_group_is_the_default_one(group: str | None) -> None:
    assert check_group(group, length_max=255) == QUEUE_MODE


def test_a_group_is_a_name() -> None:
    assert check_group("audit", length_max=255) == "audit"
    with pytest.raises(InvalidRequest, match="consumerGroup"):
        check_group("audit", length_max=4)


def test_a_count_within_its_bound_passes() -> None:
    check_count("items", 10, count_max=10)


def test_a_count_beyond_its_bound_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="items has 11 elements; send at most 10 per request"):
        check_count("items", 11, count_max=10)
