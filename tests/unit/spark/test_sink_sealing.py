"""Payloads of a task are encrypted for encrypted queues, and only there."""

from __future__ import annotations

import json
import secrets
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")

from queenmq.crypto.envelope import Place  # noqa: E402
from queenmq.crypto.keys import Key, parse_key  # noqa: E402
from queenmq.crypto.vault import Vault  # noqa: E402
from queenmq.errors import DecryptionFailed, InvalidRequest  # noqa: E402
from queenmq.spark.sink.options import SEALED_FOR  # noqa: E402
from queenmq.spark.sink.sealing import Sealer  # noqa: E402

NAMES = ("queue", "partition", "payload", "transaction_id", "trace_id")
TEXT = '{"n": 1, "é": "\\u0000"}'


def new_key() -> Key:
    return parse_key(secrets.token_hex(32), "test")


KEY, OLD = new_key(), new_key()


def row(queue: str = "secret", **values: Any) -> dict[str, Any]:
    return dict.fromkeys(NAMES) | {"queue": queue, "partition": "p", "payload": TEXT} | values


def seal(*rows: dict[str, Any], keys: tuple[Key, ...] = (KEY,)) -> list[dict[str, Any]]:
    """Encrypt the rows of queues named `secret...` and return all rows."""
    batch = pa.RecordBatch.from_pylist(list(rows), pa.schema(_fields(rows)))
    sealer = Sealer(keys, lambda names: {name for name in names if name.startswith("secret")})
    return [found for one in sealer.seal([batch]) for found in one.to_pylist()]


def _fields(rows: tuple[dict[str, Any], ...]) -> list[Any]:
    fields = [(name, pa.string()) for name in NAMES]
    if SEALED_FOR in rows[0]:
        fields.append((SEALED_FOR, pa.struct([(name, pa.string()) for name in Place._fields])))
    return fields


def open_row(found: dict[str, Any], key: Key = KEY) -> str:
    place = Place(found["queue"], found["partition"], found["transaction_id"])
    return Vault([key]).unseal(found["payload"], place)


def copied(place: Place, key: Key = KEY, **values: Any) -> dict[str, Any]:
    """A row as a lake has it: encrypted for where it was."""
    payload = Vault([key]).seal(TEXT, place)
    origin = {SEALED_FOR: place._asdict()}
    return row(payload=payload, transaction_id=place.transaction_id) | origin | values


def test_only_encrypted_queues_are_encrypted() -> None:
    first, clear, second = seal(row(transaction_id="t"), row("open"), row())
    assert clear == row("open") | {"is_encrypted": False}
    assert first["is_encrypted"] and first["transaction_id"] == "t"
    assert second["transaction_id"]
    assert [open_row(first), open_row(second)] == [TEXT, TEXT]


def test_rows_without_an_encrypted_queue_stay_as_they_are() -> None:
    assert seal(row("open"), keys=()) == [row("open") | {"is_encrypted": False}]


def test_the_first_key_encrypts() -> None:
    (found,) = seal(row(), keys=(KEY, OLD))
    assert json.loads(found["payload"])["keyId"] == KEY.id


def test_without_a_key_nothing_is_written() -> None:
    with pytest.raises(InvalidRequest, match=r"queue secret is encrypted.*encryptionKeys"):
        seal(row("open"), row(), keys=())


def test_copies_are_encrypted_for_their_new_place() -> None:
    place = Place("secret-before", "other", "t")
    found, clear = seal(copied(place, OLD), row() | {SEALED_FOR: None}, keys=(KEY, OLD))
    assert SEALED_FOR not in found
    assert [open_row(found), open_row(clear)] == [TEXT, TEXT]


def test_copies_do_not_become_readable() -> None:
    with pytest.raises(InvalidRequest, match=r"'open' that it goes to is not"):
        seal(copied(Place("secret", "p", "t"), queue="open"))


def test_copies_need_their_key() -> None:
    with pytest.raises(InvalidRequest, match=f"with key {OLD.id}, and .* has {KEY.id}"):
        seal(copied(Place("secret", "p", "t"), OLD))


def test_a_copy_of_another_message_is_refused() -> None:
    moved = copied(Place("secret", "p", "t"))
    moved[SEALED_FOR]["transaction_id"] = "another"
    with pytest.raises(DecryptionFailed, match="belongs to another message"):
        seal(moved)


def test_each_queue_is_looked_up_once() -> None:
    asked: list[set[str]] = []

    def find(names: Any) -> set[str]:
        asked.append(set(names))
        return set()

    sealer = Sealer((), find)
    batches = [
        pa.RecordBatch.from_pylist([row(name)], pa.schema([(name, pa.string()) for name in NAMES]))
        for name in ("a", "b", "a")
    ]
    assert len(list(sealer.seal(batches))) == 3
    assert not sealer.is_encrypted("b")
    assert asked == [{"a"}, {"b"}]
