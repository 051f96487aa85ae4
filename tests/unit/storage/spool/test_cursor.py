"""The cursor survives a write that stops anywhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from queenmq.storage.spool.cursor import SLOT_BYTES, CursorFile
from queenmq.storage.spool.position import Place

#: Header of a record, then format, number, segment and offset.
SLOT_LENGTH = 8 + 32


def stored(path: Path, *places: Place) -> None:
    cursor = CursorFile(path)
    for place in places:
        cursor.store(place)
    cursor.close()


def loaded(path: Path) -> Place | None:
    cursor = CursorFile(path)
    try:
        return cursor.load()
    finally:
        cursor.close()


def test_the_last_cursor_stored_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "cursor"
    assert loaded(path) is None
    for number in range(5):
        stored(path, Place(number, number * 10))
        assert loaded(path) == Place(number, number * 10)


@pytest.mark.parametrize("written", range(SLOT_LENGTH))
def test_a_torn_cursor_leaves_the_one_before(tmp_path: Path, written: int) -> None:
    path = tmp_path / "cursor"
    stored(path, Place(1, 10), Place(2, 20))
    before = path.read_bytes()
    # A number whose last byte differs too, so that only the whole slot holds it.
    stored(path, Place(3, 1 << 60))
    after = path.read_bytes()
    torn = bytearray(before)
    torn[SLOT_BYTES : SLOT_BYTES + written] = after[SLOT_BYTES : SLOT_BYTES + written]
    path.write_bytes(torn)
    assert loaded(path) == Place(2, 20)
    stored(path, Place(4, 40))
    assert loaded(path) == Place(4, 40)


@pytest.mark.parametrize("offset", range(SLOT_LENGTH))
def test_a_damaged_cursor_leaves_the_one_before(tmp_path: Path, offset: int) -> None:
    path = tmp_path / "cursor"
    stored(path, Place(1, 10), Place(2, 20))
    content = bytearray(path.read_bytes())
    content[offset] ^= 1
    path.write_bytes(content)
    assert loaded(path) == Place(1, 10)


def test_two_damaged_slots_are_no_cursor(tmp_path: Path) -> None:
    path = tmp_path / "cursor"
    stored(path, Place(1, 10), Place(2, 20))
    path.write_bytes(bytes(2 * SLOT_BYTES))
    assert loaded(path) is None
