"""Reading encrypted payloads in Spark: readable with the keys, NULL without."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from queenmq.crypto.envelope import Place
from queenmq.crypto.keys import parse_key
from queenmq.crypto.vault import Vault
from tests.support.feed import Feed

Read = Callable[..., DataFrame]


def test_reading(read: Read, feed: Feed, tmp_path: Path) -> None:
    keys = [secrets.token_hex(32), secrets.token_hex(32)]
    for number, transaction_id in enumerate(("clear", "first", "second", "moved"), 1):
        feed.push("orders", {"n": number}, partition="é", transaction_id=transaction_id)
    for transaction_id, key in (("first", keys[0]), ("second", keys[1]), ("moved", keys[0])):
        place = Place("orders", "é", "another" if transaction_id == "moved" else transaction_id)
        sealed = Vault([parse_key(key, "test")]).seal(json.dumps({"n": 7}), place)
        feed.execute(
            f"UPDATE queen.messages SET payload = '{sealed}', is_encrypted = true"
            f" WHERE transaction_id = '{transaction_id}'"
        )
    feed.execute("UPDATE queen.queues SET encryption_enabled = true")
    files = [tmp_path / "first", tmp_path / "both"]
    files[0].write_text(keys[0])
    files[1].write_text("\n".join(keys))

    def payloads(**options: str) -> list[str | None]:
        rows = read(queue="orders", **options).orderBy("seq").collect()
        assert [row.is_encrypted for row in rows] == [False, True, True, True]
        return [row.payload for row in rows]

    clear, opened = json.dumps({"n": 1}), json.dumps({"n": 7})
    assert payloads() == [clear, None, None, None]
    assert payloads(encryptionKeys=str(files[0])) == [clear, opened, None, None]
    assert payloads(encryptionKeys=str(files[1])) == [clear, opened, opened, None]
    stored = payloads(encryptedPayloads="stored")
    assert all("authTag" in (one or "") for one in stored[1:])
    typed = read(queue="orders", payloadSchema="n INT", encryptionKeys=str(files[1]))
    rows = typed.orderBy("seq").collect()
    assert [row.payload and row.payload.n for row in rows] == [1, 7, 7, None]
    assert rows[3].misfit.asDict() == {"reason": "payload is encrypted", "payload": None}
    variants = read(queue="orders", payloadType="variant", encryptionKeys=str(files[0]))
    shown = variants.selectExpr("to_json(payload) AS text", "seq").orderBy("seq").collect()
    assert [row.text for row in shown] == ['{"n":1}', '{"n":7}', None, None]
    with pytest.raises(PySparkException, match="is not a key"):
        files[0].write_text("abc")
        read(queue="orders", encryptionKeys=str(files[0])).collect()
