"""Source, window, sink, archive and replay on a cluster with speculation, while executors fail.

QUEEN_TEST_SCALE_MESSAGES says how many messages (200,000; take 5,000,000 before a release).
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from pathlib import Path

import pytest

from tests.support.feed import Feed
from tests.support.own_postgres import OwnPostgres
from tests.support.scale_driver import (
    AGAIN,
    KEYS,
    LAST_S,
    PER_SECOND,
    PHASES,
    SOURCE,
    WINDOW_S,
    WINDOWS,
)
from tests.support.spark_processes import SparkProcess
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.jobs, pytest.mark.slow, pytest.mark.timeout(7_200)]

MESSAGES = int(os.environ.get("QUEEN_TEST_SCALE_MESSAGES", "200000"))
#: Of one phase.
PHASE_S = 1_800
#: What tells of each phase that tasks have begun to have an effect.
_EFFECTS = {
    "write": "SELECT EXISTS (SELECT FROM queen.spark_staging) AS found",
    "replay": "SELECT EXISTS (SELECT FROM queen.queues WHERE name = 'scale-again') AS found",
}
_FILES = {"window": "checkpoint/offsets/0", "archive": "lake/messages/data-*/**/*.parquet"}
#: Both queues partition by partition: how many messages, and a digest of them in order.
_DIGESTS = """
    SELECT p.name AS partition, count(*) AS messages,
           md5(string_agg(md5(m.payload::text), '' ORDER BY m.seq)) AS digest,
           bool_and(m.seq = m.place) AS is_dense
    FROM (SELECT x.*, row_number() OVER (PARTITION BY x.partition_id ORDER BY x.seq) AS place
          FROM queen.messages x JOIN queen.queues q ON q.id = x.queue_id WHERE q.name = $1) m
    JOIN queen.partitions p ON p.id = m.partition_id
    GROUP BY p.name
"""
_PAYLOADS = """
    SELECT p.name AS partition, m.payload::text FROM queen.messages m
    JOIN queen.partitions p ON p.id = m.partition_id JOIN queen.queues q ON q.id = m.queue_id
    WHERE q.name = $1 ORDER BY p.name, m.seq
"""
#: Whether a partition holds its numbers in order.
_IN_ORDER = """
    SELECT count(*) AS n FROM (
        SELECT v.n, lag(v.n) OVER (PARTITION BY m.partition_id ORDER BY m.seq) AS before
        FROM queen.messages m JOIN queen.queues q ON q.id = m.queue_id
        CROSS JOIN LATERAL (SELECT (m.payload->>'n')::bigint AS n) v WHERE q.name = $1) x
    WHERE x.n <= x.before
"""


def _windows() -> dict[str, list[dict[str, int]]]:
    """Return the expected windows of each key, in order."""
    found: dict[tuple[str, int], list[int]] = defaultdict(lambda: [0, 0])
    for n in range(MESSAGES):
        window = found[str(n % KEYS), n // PER_SECOND // WINDOW_S * WINDOW_S]
        window[0] += 1
        window[1] += n
    keys: dict[str, list[dict[str, int]]] = defaultdict(list)
    for (key, start), (messages, total) in sorted(found.items()):
        keys[key].append({"start": start, "messages": messages, "total": total})
    return {key: sorted(rows, key=lambda row: row["start"]) for key, rows in keys.items()}


def test_many_messages_on_a_cluster_whose_executors_fail(
    server: OwnPostgres, tmp_path: Path
) -> None:
    log = tmp_path / "driver.log"
    command = ["tests.support.scale_driver", server.url, str(tmp_path), str(MESSAGES)]
    driver = SparkProcess(command, log)

    def has_begun(phase: str) -> bool:
        assert not driver.is_done(), driver.last_words()
        return f"{phase} begins" in log.read_text()

    def has_effect(phase: str) -> bool:
        if phase in _FILES:
            return any(tmp_path.glob(_FILES[phase]))
        return bool(feed.rows(_EFFECTS[phase])[0]["found"])

    try:
        with Feed(server.url) as feed:
            for phase in PHASES:
                wait_until(
                    lambda phase=phase: has_begun(phase) and has_effect(phase),
                    timeout_s=PHASE_S,
                    what=f"tasks of {phase}",
                )
                assert driver.kill_executor(0), f"no executor in {phase}"
            wait_until(driver.is_done, timeout_s=PHASE_S, what="the last phase to end")
            assert driver.process.returncode == 0, driver.last_words()
            _compare(feed)
    finally:
        driver.kill()
    figures = [line for line in log.read_text().splitlines() if line.endswith("}")]
    print(f"{MESSAGES} messages:", *figures, sep="\n")


def _compare(feed: Feed) -> None:
    source, again = (
        {row["partition"]: tuple(row)[1:] for row in feed.rows(_DIGESTS, queue)}
        for queue in (SOURCE, AGAIN)
    )
    assert sum(messages for messages, *_ in source.values()) == MESSAGES + 1
    assert all(is_dense for *_, is_dense in source.values())
    assert feed.rows(_IN_ORDER, SOURCE)[0]["n"] == 0
    assert again == source, "what was archived and replayed is what was written, in order"
    windows: dict[str, list[dict[str, int]]] = defaultdict(list)
    for row in feed.rows(_PAYLOADS, WINDOWS):
        windows[row["partition"]].append(json.loads(row["payload"]))
    last = str(LAST_S * PER_SECOND % KEYS)
    windows[last] = [row for row in windows[last] if row["start"] < LAST_S - WINDOW_S]
    assert dict(windows) == _windows()
