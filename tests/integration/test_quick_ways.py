"""The quick ways of pops and acks answer the same and leave the same rows as the full rules."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import asyncpg

from queenmq.ids import new_lease_id
from tests.isolation.sessions import (
    QUEUE_MODE,
    Ack,
    Item,
    Want,
    ack,
    ack_completed,
    configure,
    ensure,
    expire,
    pop,
    push,
)
from tests.support.broker import unique

_SCRIPTS = 25
_STEPS = 24
_PARTITIONS = ("a", "b", "c")
_GROUPS = (QUEUE_MODE, "other")
#: What an ack leaves behind; times and lease ids differ between the twins by nature.
_ROWS = (
    "SELECT p.name, pc.consumer_group::text, pc.cursor_seq, pc.lease_end_seq, pc.retry_count,"
    " pc.retry_seq, pc.retry_error, pc.retry_at IS NULL, pc.expiry_count, pc.solo_until_seq,"
    " pc.blocked_seq, pc.total_consumed, pc.total_batches, pc.lease_id IS NULL,"
    " pc.lease_expires_at > clock_timestamp(), pc.last_consumed_at IS NULL,"
    " extract(epoch FROM pc.lease_expires_at - pc.lease_acquired_at)::integer / 10"
    " FROM queen.partition_consumers pc JOIN queen.partitions p ON p.id = pc.partition_id"
    " JOIN queen.queues q ON q.id = p.queue_id WHERE q.name = $1 ORDER BY 1, 2"
)
_HISTORY = (
    "SELECT p.name, h.consumer_group::text, h.first_seq, h.last_seq, h.cause, h.completed,"
    " h.dead_lettered, h.retries, h.delivered_at IS NULL FROM queen.ack_history h"
    " JOIN queen.partitions p ON p.id = h.partition_id JOIN queen.queues q ON q.id = p.queue_id"
    " WHERE q.name = $1 ORDER BY 1, 2, 3, 4"
)


class Twin:
    """One of two queues that see the same script. `is_quick`: by the quick ways of pop and ack."""

    def __init__(self, database: asyncpg.Connection, *, is_quick: bool) -> None:
        self._database = database
        self._is_quick = is_quick
        self.queue = unique()
        self._ids: list[UUID] = []
        #: Names of the messages of each partition, by seq - 1.
        self._names: list[list[str]] = [[] for _ in _PARTITIONS]
        #: The last two leases of each pair, newest first.
        self._leases: dict[tuple[int, str], list[UUID]] = {}
        #: What each pair was last delivered, by seq.
        self.delivered: dict[tuple[int, str], list[int]] = {}

    async def start(self, **columns: Any) -> None:
        await configure(self._database, self.queue, **columns)
        self._ids = await ensure(self._database, self.queue, *_PARTITIONS)

    async def push(self, place: int, names: Sequence[str | None]) -> None:
        items = [Item(self._ids[place], name, name) for name in names]
        pushed = await push(self._database, *items)
        self._names[place] += [
            given or made for given, made in zip(names, pushed.message_ids, strict=True)
        ]

    async def pop(
        self, pairs: Sequence[tuple[int, str]], batch: int, *, auto_ack: bool = False
    ) -> list[Any]:
        """Pop for each pair; what each was answered."""
        pop_all = self._pop_quickly if self._is_quick else self._pop_fully
        answers = []
        for number, outcome, lease_id, has_more, names, attempts in await pop_all(
            pairs, batch, auto_ack
        ):
            pair = pairs[number - 1]
            seqs = [self._names[pair[0]].index(name) + 1 for name in names]
            if lease_id is not None and names:
                self._leases[pair] = [lease_id, *self._leases.get(pair, [])[:1]]
                self.delivered[pair] = seqs
            answers.append((number, outcome, has_more if names else None, seqs, attempts))
        return sorted(answers)

    async def _pop_quickly(
        self, pairs: Sequence[tuple[int, str]], batch: int, auto_ack: bool
    ) -> list[Any]:
        wants = [Want([self._ids[place]], group, batch, auto_ack) for place, group in pairs]
        return [
            (
                row.request,
                row.outcome,
                row.lease_id,
                row.has_more,
                [message["transactionId"] for message in row.messages],
                row.messages[0]["retryCount"] if row.messages else None,
            )
            for row in await pop(self._database, *wants)
        ]

    async def _pop_fully(
        self, pairs: Sequence[tuple[int, str]], batch: int, auto_ack: bool
    ) -> list[Any]:
        """Do by hand what pop_messages_batch does with the grants of pop_sm_lease."""
        count = len(pairs)
        ids, groups = [self._ids[place] for place, _ in pairs], [group for _, group in pairs]
        await self._database.fetch("SELECT queen.create_cursors($1, $2, true)", ids, groups)
        rows = await self._database.fetch(
            "SELECT * FROM queen.pop_sm_lease($1, $2, $3, $4, $5, $6)",
            list(range(1, count + 1)), ids, groups, [batch] * count, [auto_ack] * count,
            [new_lease_id(one) for one in ids],
        )  # fmt: skip
        return [await self._finished(row) for row in rows]

    async def _finished(self, row: asyncpg.Record) -> Any:
        place, group = row["partition_id"], row["consumer_group"]
        if row["outcome"] == "poison":
            await self._database.fetch("SELECT queen.settle_poison($1, $2)", place, group)
            return row["request"], "again", None, None, [], None
        if row["outcome"] != "granted":
            return row["request"], row["outcome"], None, None, [], None
        found = await self._database.fetch(
            "SELECT coalesce(transaction_id, id::text) FROM queen.messages"
            " WHERE partition_id = $1 AND seq > $2 AND seq <= $3 ORDER BY seq",
            place, row["after_seq"], row["end_seq"],
        )  # fmt: skip
        names = [one[0] for one in found]
        if not names:
            await self._database.fetch(
                "SELECT queen.return_empty($1, $2, $3, $4)",
                place, group, row["lease_id"], row["end_seq"],
            )  # fmt: skip
            return row["request"], "again", None, None, [], None
        await self._database.fetch(
            "SELECT queen.cut_lease($1, $2, $3, $4, $5)",
            place, group, row["lease_id"], row["after_seq"], row["end_seq"],
        )  # fmt: skip
        return (
            row["request"], "granted", row["lease_id"], row["has_more"], names, row["attempts"],
        )  # fmt: skip

    def _ack(self, pair: tuple[int, str], seq: int, age: int, status: str) -> Ack:
        place, group = pair
        leases = self._leases.get(pair, [])
        lease_id = leases[age] if age < len(leases) else UUID(int=7)
        known = self._names[place]
        name = known[seq - 1] if 0 < seq <= len(known) else f"nobody-{seq}"
        return Ack(self._ids[place], name, lease_id, status, group)

    async def complete(self, acks: Sequence[tuple[tuple[int, str], list[int], int]]) -> list[Any]:
        """Ack lists of messages, each of one pair under its newest lease or an older one."""
        leases = [
            [self._ack(pair, seq, age, "completed") for seq in seqs] for pair, seqs, age in acks
        ]
        if self._is_quick:
            rows = await ack_completed(self._database, *leases)
        else:
            rows = await ack(self._database, *(one for lease in leases for one in lease))
        return [
            (row["success"], row["error"], row["lease_released"], row["has_more"], row["dlq"],
             row["partition_name"], row["queue_name"] is None)
            for row in rows
        ]  # fmt: skip

    async def fail(self, pair: tuple[int, str], seq: int, status: str) -> None:
        await ack(self._database, self._ack(pair, seq, 0, status))

    async def expire(self, pair: tuple[int, str]) -> None:
        await expire(self._database, self._ids[pair[0]], pair[1])

    async def remove(self, place: int, seq: int) -> None:
        if 0 < seq <= len(self._names[place]):
            await self._database.fetch(
                "SELECT * FROM queen.delete_message($1, $2, 1000)",
                self._ids[place],
                self._names[place][seq - 1],
            )

    async def rows(self) -> list[list[Any]]:
        return [
            [tuple(row) for row in await self._database.fetch(query, self.queue)]
            for query in (_ROWS, _HISTORY)
        ]


async def test_random_scripts_end_alike_on_both_ways(database: asyncpg.Connection) -> None:
    whole = 0
    for number in range(_SCRIPTS):
        rng = random.Random(number)
        quick, full = Twin(database, is_quick=True), Twin(database, is_quick=False)
        options = {
            "ack_history": rng.random() < 0.2,
            "retry_limit": rng.choice([0, 1, 3]),
            "on_poison": rng.choice(["dlq", "skip", "block"]),
            "delayed_processing": rng.choice([0, 0, 0, 0, 3_600]),
            "lease_time": rng.choice([0, 300]),
        }
        for twin in (quick, full):
            await twin.start(**options)
        for step in range(_STEPS):
            shown = f"script {number}, step {step}"
            whole += await _step(rng, quick, full, f"{number}-{step}", shown)
            assert await quick.rows() == await full.rows(), shown
    # Else the scripts would say nothing about the quick way.
    assert whole > _SCRIPTS


async def _step(rng: random.Random, quick: Twin, full: Twin, tag: str, shown: str) -> int:
    """Do the same to both; how many leases were acked in delivery order."""
    twins = (quick, full)
    pair = (rng.randrange(len(_PARTITIONS)), rng.choice(_GROUPS))
    kind = rng.choices(["push", "pop", "complete", "fail", "expire", "remove"], [3, 4, 9, 2, 3, 1])[
        0
    ]
    if kind == "push":
        names = [f"{tag}-{n}" if rng.random() < 0.5 else None for n in range(rng.randint(1, 6))]
        for twin in twins:
            await twin.push(pair[0], names)
    elif kind == "pop":
        pairs = rng.sample([(p, g) for p in range(3) for g in _GROUPS], rng.randint(1, 4))
        batch, auto_ack = rng.randint(1, 5), rng.random() < 0.2
        quickly = await quick.pop(pairs, batch, auto_ack=auto_ack)
        assert quickly == await full.pop(pairs, batch, auto_ack=auto_ack), shown
    elif kind == "complete":
        pairs = rng.sample(sorted(quick.delivered), min(len(quick.delivered), rng.randint(1, 3)))
        acks = [(one, *_choose(rng, quick.delivered[one])) for one in pairs]
        if acks:
            assert await quick.complete(acks) == await full.complete(acks), shown
        return sum(seqs == quick.delivered[one] for one, seqs, _ in acks)
    elif kind == "fail" and pair in quick.delivered:
        seq, status = rng.choice(quick.delivered[pair]), rng.choice(["failed", "retry", "dlq"])
        for twin in twins:
            await twin.fail(pair, seq, status)
    elif kind == "expire":
        for twin in twins:
            await twin.expire(pair)
        assert await quick.pop([pair], 3) == await full.pop([pair], 3), shown
    elif kind == "remove":
        seq = rng.randint(1, 8)
        for twin in twins:
            await twin.remove(pair[0], seq)
    return 0


def _choose(rng: random.Random, delivered: list[int]) -> tuple[list[int], int]:
    """Return the messages to ack, by seq, and their lease: mostly all of the last delivery."""
    age = rng.choices([0, 1, 2], [12, 1, 1])[0]
    kinds = ["all", "some", "last", "mixed", "twice", "beyond", "one"]
    kind = rng.choices(kinds, [6, 3, 3, 2, 1, 2, 3])[0]
    seqs = list(delivered)
    if kind == "some":
        seqs = seqs[: rng.randint(1, len(seqs))]
    elif kind == "last":
        seqs = seqs[-rng.randint(1, len(seqs)) :]
    elif kind == "mixed":
        rng.shuffle(seqs)
    elif kind == "twice":
        seqs += seqs[-1:]
    elif kind == "beyond":
        seqs.append(seqs[-1] + rng.randint(1, 3))
    elif kind == "one":
        seqs = [rng.choice(seqs)]
    return seqs, age
