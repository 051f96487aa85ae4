"""Records come back as they went in, and nothing else is taken for one."""

from __future__ import annotations

import struct

import pytest

from queenmq.storage.spool import framing
from queenmq.storage.spool.framing import Ending, encode, scan


def test_records_come_back_in_order() -> None:
    bodies = [b"", b"a", b"\x00" * 9, b"longer " * 100]
    found = scan(b"".join(map(encode, bodies)))
    assert found.bodies == bodies
    assert found.ending is Ending.CLEAN
    assert found.valid_bytes == found.ends[-1] == sum(len(body) + 8 for body in bodies)


def test_a_record_is_length_checksum_body() -> None:
    # An empty body leaves only the length in the checksum: the CRC32C of four zero bytes.
    assert encode(b"") == struct.pack("<II", 0, 0x48674BC7)
    assert encode(b"123456789")[:4] == struct.pack("<I", 9)
    assert encode(b"123456789")[8:] == b"123456789"


@pytest.mark.parametrize("kept", range(1, len(encode(b"second"))))
def test_a_record_cut_short_is_not_read(kept: int) -> None:
    first = encode(b"first")
    found = scan(first + encode(b"second")[:kept])
    assert found.bodies == [b"first"]
    assert found.valid_bytes == len(first)
    assert found.ending is Ending.SHORT
    assert found.needed_bytes == (8 if kept < 8 else 14)


@pytest.mark.parametrize("offset", range(len(encode(b"second"))))
def test_a_record_with_any_byte_changed_is_not_read(offset: int) -> None:
    damaged = bytearray(encode(b"second"))
    damaged[offset] ^= 0x40
    found = scan(encode(b"first") + bytes(damaged) + encode(b"third"))
    assert found.bodies == [b"first"]
    assert found.ending is not Ending.CLEAN


def test_zeros_are_no_record() -> None:
    assert scan(bytes(64)).ending is Ending.DAMAGED


def test_an_absurd_length_is_damage_and_not_a_record_to_wait_for() -> None:
    header = struct.pack("<II", framing.BODY_BYTES_MAX + 1, 0)
    assert scan(header).ending is Ending.DAMAGED


def test_a_body_over_the_bound_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framing, "BODY_BYTES_MAX", 10)
    encode(bytes(10))
    with pytest.raises(ValueError, match="at most 10 bytes"):
        encode(bytes(11))
