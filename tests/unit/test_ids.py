"""Identifiers: what the broker makes, and what it accepts as one."""

from __future__ import annotations

from uuid import RFC_4122, UUID

import pytest

from queenmq.ids import parse_uuid, random_uuid, uuid7_text, uuid7_texts

USUAL = "0190a8f0-1234-7abc-8def-0123456789ab"


def test_random_uuid_is_a_version_4_uuid() -> None:
    made = random_uuid()
    assert made.version == 4
    assert made.variant == RFC_4122


def test_random_uuids_differ() -> None:
    assert len({random_uuid() for _ in range(1_000)}) == 1_000


def test_a_uuid_of_a_moment_begins_with_it() -> None:
    texts = [uuid7_text(1_700_000_000_000 + n) for n in range(1_000)]
    assert texts == sorted(texts)
    made = parse_uuid(texts[0])
    assert made is not None and made.version == 7 and made.variant == RFC_4122
    assert made.int >> 80 == 1_700_000_000_000
    assert len({uuid7_text(5) for _ in range(1_000)}) == 1_000


def test_the_usual_form_is_parsed() -> None:
    assert parse_uuid(USUAL) == UUID(USUAL)


def test_capital_letters_are_the_same_id() -> None:
    assert parse_uuid(USUAL.upper()) == UUID(USUAL)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        USUAL[:-1],
        USUAL + "0",
        USUAL.replace("-", ""),
        "{" + USUAL + "}",
        "urn:uuid:" + USUAL,
        "g" + USUAL[1:],
        USUAL.replace("-", "") + "----",
        "{" + USUAL.replace("-", "") + "}--",
        "-" * 36,
        "0x90a8f0-1234-7abc-8def-0123456789ab"[:36],
        "0190a8f0-1234-7abc-8def-0123456789_b",
        "٠190a8f0-1234-7abc-8def-0123456789ab",
        " 190a8f0-1234-7abc-8def-0123456789ab",
    ],
)
def test_any_other_form_is_none(text: str) -> None:
    assert parse_uuid(text) is None


def test_several_version_7_ids_ascend_and_no_two_are_alike() -> None:
    groups = [uuid7_texts(1_700_000_000_000, count) for count in (0, 1, 2, 1_000, 1_000)]
    for group in groups:
        assert group == sorted(group)
        assert {UUID(text).version for text in group} <= {7}
        assert {UUID(text).variant for text in group} <= {RFC_4122}
        assert {text[:13] for text in group} <= {"018bcfe5-6800"}
    assert len({text for group in groups for text in group}) == 2_003
