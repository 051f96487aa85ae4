"""Encrypted queues for tests of Spark: keys, queues, and looks for what must not be readable."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx

from queenmq.crypto.keys import parse_key_file
from tests.support.broker import SOON_S, BrokerProcess
from tests.support.feed import Feed

_MAKE = "SELECT FROM queen.ensure_partitions($1::text[], $2::text[], NULL)"
_ENCRYPT = "UPDATE queen.queues SET encryption_enabled = true WHERE name = ANY ($1)"
_TABLES = """
    SELECT c.oid::regclass::text AS name
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname LIKE 'queen%' AND c.relkind IN ('r', 'p')
"""
_STORED = """
    SELECT m.payload::text, m.is_encrypted FROM queen.messages m
    JOIN queen.queues q ON q.id = m.queue_id WHERE q.name = $1 ORDER BY m.partition_id, m.seq
"""


def write_keys(file: Path, *more: str) -> str:
    """Write a key file with a new key, in front of others; the new key."""
    key = secrets.token_hex(32)
    file.write_text("\n".join((key, *more)))
    return key


def key_ids(file: Path) -> list[str]:
    return [key.id for key in parse_key_file(file.read_text(), "test")]


def encrypt(feed: Feed, *queues: str) -> None:
    """Make queues that are encrypted."""
    feed.execute(_MAKE, list(queues), ["p0"] * len(queues))
    feed.execute(_ENCRYPT, list(queues))


def dump(feed: Feed) -> str:
    """Everything that is in a table of ours, as text."""
    parts = []
    for table in feed.rows(_TABLES):
        parts += feed.rows(f"SELECT t::text FROM {table['name']} t")
    return "\n".join(row[0] for row in parts)


def files_with(folder: Path, text: str) -> list[str]:
    """The files below a folder that hold a text."""
    return [
        str(file.relative_to(folder))
        for file in sorted(folder.rglob("*"))
        if file.is_file() and text.encode() in file.read_bytes()
    ]


def key_ids_of(feed: Feed, queue: str) -> list[str]:
    """With which key each message of a queue is encrypted."""
    rows = feed.rows(_STORED, queue)
    assert all(row["is_encrypted"] for row in rows)
    return [json.loads(row["payload"])["keyId"] for row in rows]


def pop(broker: BrokerProcess, queue: str) -> httpx.Response:
    """One pop of everything in a queue."""
    query: dict[str, Any] = {"batch": 100, "partitions": 10, "autoAck": "true"}
    return httpx.get(
        f"{broker.url}/api/v1/pop/queue/{queue}", params=query, timeout=SOON_S, verify=False
    )


def pop_payloads(broker: BrokerProcess, queue: str) -> Sequence[Any]:
    """The payloads of all messages in a queue, as a consumer gets them."""
    found: list[Any] = []
    while (answer := pop(broker, queue)).status_code == 200:
        found += [message["data"] for message in answer.json()["messages"]]
    assert answer.status_code == 204, answer.text
    return found
