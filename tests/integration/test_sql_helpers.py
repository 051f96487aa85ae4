"""The small functions of the database that others build on: ids, searches, leases, rooms."""

from __future__ import annotations

import random
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from queenmq.ids import new_lease_id
from queenmq.storage.sql_files import load_queries

CALLS = load_queries("calls")
QUEUE_MODE = "__QUEUE_MODE__"
#: The part of seq that an id holds.
SEQ_MAX = 2**40 - 1
START = datetime(2030, 1, 1, tzinfo=UTC)


async def make_partition(
    database: asyncpg.Connection, queue: str = "orders", partition: str = "p"
) -> UUID:
    row = await database.fetchrow(CALLS["ensure_partitions"], [queue], [partition], None)
    partition_id: UUID = row["partition_id"]
    return partition_id


async def push(database: asyncpg.Connection, partition_id: UUID, count: int = 1) -> list[UUID]:
    row = await database.fetchrow(
        CALLS["push_messages"],
        [partition_id], [1] * count, None, None, ["1"] * count, None, None,
        [count], None, 0, False, False, None, False, None, None, None,
    )  # fmt: skip
    return [UUID(text) for text in row["message_ids"]]


async def pop(
    database: asyncpg.Connection,
    *requests: Sequence[UUID],
    group: str = QUEUE_MODE,
    batch: int = 10,
) -> list[Any]:
    """One call: each request names the partitions it may take."""
    columns: list[list[Any]] = [[], [], [], [], [], []]
    for number, partition_ids in enumerate(requests, 1):
        lease_id = new_lease_id(partition_ids[0])
        for partition_id in partition_ids:
            for column, value in zip(
                columns, (number, partition_id, group, batch, False, lease_id), strict=True
            ):
                column.append(value)
    found: list[Any] = await database.fetch(CALLS["pop_messages_batch"], *columns, None, None)
    return found


class TestMessageIds:
    async def set_last_seq(
        self, database: asyncpg.Connection, partition_id: UUID, seq: int
    ) -> None:
        await database.execute(
            "UPDATE queen.partition_lookup SET last_seq = $2 WHERE partition_id = $1",
            partition_id,
            seq,
        )

    async def seq_of(
        self, database: asyncpg.Connection, partition_id: UUID, text: object
    ) -> int | None:
        found: int | None = await database.fetchval(
            "SELECT queen.seq_of_message_id($1, $2)", partition_id, str(text)
        )
        return found

    async def test_an_id_is_a_uuid_of_version_7(self, database: asyncpg.Connection) -> None:
        for number in range(20):
            partition_id = await make_partition(database, partition=f"p{number}")
            for made in await push(database, partition_id, 3):
                assert made.version == 7
                assert str(made)[19] in "89ab"

    async def test_an_id_tells_when_its_message_was_made(
        self, database: asyncpg.Connection
    ) -> None:
        (made,) = await push(database, await make_partition(database))
        created_at = await database.fetchval("SELECT created_at FROM queen.messages")
        assert made.int >> 80 == int(created_at.timestamp() * 1000)

    async def test_ids_ascend_with_seq(self, database: asyncpg.Connection) -> None:
        partition_id = await make_partition(database)
        made = [one for count in (3, 1, 40) for one in await push(database, partition_id, count)]
        assert made == sorted(made)
        rows = await database.fetch("SELECT id FROM queen.messages ORDER BY seq")
        assert [row["id"] for row in rows] == made

    @pytest.mark.parametrize("last_seq", [0, 9, 255, 2**20 - 1, 2**31 - 1, 2**32, SEQ_MAX - 3])
    async def test_seq_is_found_again_in_the_id(
        self, database: asyncpg.Connection, last_seq: int
    ) -> None:
        partition_id = await make_partition(database)
        await self.set_last_seq(database, partition_id, last_seq)
        made = await push(database, partition_id, 3)
        assert made == sorted(made)
        found = [await self.seq_of(database, partition_id, one) for one in made]
        assert found == [last_seq + 1, last_seq + 2, last_seq + 3]

    async def test_ids_of_partitions_that_look_alike_differ(
        self, database: asyncpg.Connection
    ) -> None:
        """Same first bits of the partition's id, same millisecond, same seq."""
        await make_partition(database)
        places = sorted(UUID(int=(0x1234_5678 << 96) + number) for number in range(50))
        await database.execute(
            "WITH made AS (INSERT INTO queen.partitions (id, queue_id, name)"
            " SELECT u.id, q.id, u.id::text FROM unnest($1::uuid[]) AS u (id), queen.queues q"
            " RETURNING id, queue_id)"
            " INSERT INTO queen.partition_lookup (partition_id, queue_id)"
            " SELECT id, queue_id FROM made",
            places,
        )
        # A time to come is that of every push until then.
        await database.execute(
            "UPDATE queen.partition_lookup SET last_message_created_at = $1", START
        )
        row = await database.fetchrow(
            CALLS["push_messages"],
            places, list(range(1, 51)), None, None, ["1"] * 50, None, None,
            [50], None, 0, False, False, None, False, None, None, None,
        )  # fmt: skip
        assert row["outcomes"] == "q" * 50
        assert len({text[:13] for text in row["message_ids"]}) == 1
        assert len(set(row["message_ids"])) == 50

    @pytest.mark.parametrize("number", [2**32, 2**33 - 1, 2**33 + 2**20, 2**34 - 1])
    async def test_every_bit_of_a_number_is_in_the_id(
        self, database: asyncpg.Connection, number: int
    ) -> None:
        partition_id = await make_partition(database)
        await database.execute("UPDATE queen.partition_lookup SET number = $1", number)
        (made,) = await push(database, partition_id)
        assert (made.version, made.variant) == (7, uuid.RFC_4122)
        bits = made.int >> 40
        found = (bits >> 20 & 0b11) << 32 | (bits >> 24 & 0xFFF) << 20 | bits & 0xF_FFFF
        assert found == number

    async def test_numbers_that_run_out_are_an_error(self, database: asyncpg.Connection) -> None:
        await database.execute("SELECT setval('queen.partition_numbers', $1)", 2**34 - 2)
        await make_partition(database, partition="last")
        with pytest.raises(asyncpg.ProgramLimitExceededError, match="all 12884901888 partition"):
            await make_partition(database, partition="one more")
        assert await database.fetchval("SELECT count(*) FROM queen.partitions") == 1

    async def test_a_number_is_not_used_again(self, database: asyncpg.Connection) -> None:
        first = await make_partition(database, queue="gone")
        number = "SELECT number FROM queen.partition_lookup WHERE partition_id = $1"
        before = await database.fetchval(number, first)
        await database.fetchval("SELECT queen.delete_queue('gone')")
        again = await make_partition(database, queue="gone")
        assert await database.fetchval(number, again) > before

    async def test_an_id_from_before_numbers_still_leads_to_its_message(
        self, database: asyncpg.Connection
    ) -> None:
        partition_id = await make_partition(database)
        bits = partition_id.hex
        old = UUID(f"0190a0b0c0d07{bits[:3]}8{bits[3:8]}{7:010x}")
        assert await self.seq_of(database, partition_id, old) == 7
        # All that such an id repeats of its partition are the first 32 bits.
        for bit in range(32):
            other = UUID(int=partition_id.int ^ (1 << (127 - bit)))
            assert await self.seq_of(database, other, old) is None

    async def test_the_id_of_another_partition_finds_no_message(
        self, database: asyncpg.Connection
    ) -> None:
        first = await make_partition(database, partition="a")
        other = await make_partition(database, partition="b")
        (made,) = await push(database, first)
        await push(database, other)
        find = "SELECT queen.find_message($1, $2)"
        assert await database.fetchval(find, first, str(made)) == 1
        assert await database.fetchval(find, other, str(made)) is None

    @pytest.mark.parametrize(
        "change",
        [
            lambda text: "",
            lambda text: "order-4711",
            lambda text: text.upper() if text.upper() != text else "",
            lambda text: text[:-1],
            lambda text: text + "0",
            lambda text: text[:-1] + "g",
            lambda text: text[:14] + "4" + text[15:],
            lambda text: text[:19] + "c" + text[20:],
            lambda text: text.replace("-", "_"),
            lambda text: "é" * 36,
        ],
        ids=["empty", "word", "capitals", "short", "long", "digit", "version", "variant", "hyphens",
             "bytes"],
    )  # fmt: skip
    async def test_other_text_has_no_seq(self, database: asyncpg.Connection, change: Any) -> None:
        partition_id = await make_partition(database)
        (made,) = await push(database, partition_id)
        assert await self.seq_of(database, partition_id, change(str(made))) is None


class TestSeqBefore:
    async def store(
        self, database: asyncpg.Connection, partition_id: UUID, seconds: dict[int, int], first: int
    ) -> None:
        """Messages by seq with the second they were made in, as deletes have left them."""
        await database.execute(
            "INSERT INTO queen.messages (partition_id, seq, id, queue_id, created_at, payload)"
            " SELECT $1, seq, gen_random_uuid(), $1, created_at, 'null'"
            " FROM unnest($2::bigint[], $3::timestamptz[]) AS made (seq, created_at)",
            partition_id,
            list(seconds),
            [START + timedelta(seconds=second) for second in seconds.values()],
        )
        await database.execute(
            "UPDATE queen.partition_lookup SET first_seq = $2, last_seq = $3"
            " WHERE partition_id = $1",
            partition_id,
            first,
            max([first - 1, *seconds]),
        )

    async def seq_before(
        self, database: asyncpg.Connection, partition_id: UUID, second: float
    ) -> int:
        found: int = await database.fetchval(
            "SELECT queen.seq_before($1, $2)", partition_id, START + timedelta(seconds=second)
        )
        return found

    async def test_an_unknown_partition_has_none(self, database: asyncpg.Connection) -> None:
        assert await self.seq_before(database, uuid4(), 0) == 0

    async def test_an_empty_partition_has_none(self, database: asyncpg.Connection) -> None:
        assert await self.seq_before(database, await make_partition(database), 0) == 0

    async def test_a_message_made_at_that_time_is_not_before_it(
        self, database: asyncpg.Connection
    ) -> None:
        partition_id = await make_partition(database)
        await self.store(database, partition_id, {1: 10, 2: 20, 3: 20, 4: 30}, first=1)
        found = [await self.seq_before(database, partition_id, at) for at in (10, 10.5, 20, 30, 31)]
        assert found == [0, 1, 1, 3, 4]

    async def test_it_equals_a_linear_scan(self, database: asyncpg.Connection) -> None:
        for seed in range(40):
            chance = random.Random(seed)
            first = chance.choice([1, 1, 2, 500])
            numbers = range(first, first + chance.randrange(1, 120))
            share = chance.choice([0.05, 0.5, 1.0])
            kept = [seq for seq in numbers if chance.random() < share]
            times = sorted(chance.randrange(0, 60) for _ in kept)
            partition_id = await make_partition(database, partition=f"p{seed}")
            seconds = dict(zip(kept, times, strict=True))
            await self.store(database, partition_id, seconds, first)
            for second in {-1, 0, 61, *times, *(chance.randrange(0, 60) for _ in range(9))}:
                found = await self.seq_before(database, partition_id, second)
                before = [seq for seq, made in seconds.items() if made < second]
                # Where nothing is before, a cursor set to the answer must skip no message.
                is_right = found == max(before) if before else 0 <= found < first
                assert is_right, f"seed {seed}, second {second}: {found} of {seconds}"


class TestFindLease:
    async def find(self, database: asyncpg.Connection, lease_id: str) -> list[tuple[UUID, str]]:
        rows = await database.fetch(
            "SELECT partition_id, consumer_group FROM queen.find_lease($1)", UUID(lease_id)
        )
        return sorted(tuple(row) for row in rows)

    async def make_partitions(self, database: asyncpg.Connection, count: int) -> list[UUID]:
        made = []
        for number in range(count):
            made.append(await make_partition(database, partition=f"p{number}"))
            await push(database, made[-1], 2)
        return made

    async def test_a_lease_over_one_partition_is_found(self, database: asyncpg.Connection) -> None:
        first, second = await self.make_partitions(database, 2)
        for partition_id in (first, second):
            (grant,) = await pop(database, [partition_id])
            assert await self.find(database, grant["lease_id"]) == [(partition_id, QUEUE_MODE)]

    async def test_requests_of_one_call_have_leases_of_their_own(
        self, database: asyncpg.Connection
    ) -> None:
        partition_ids = await self.make_partitions(database, 3)
        grants = await pop(database, *([one] for one in partition_ids))
        assert len({grant["lease_id"] for grant in grants}) == 3
        for grant in grants:
            found = await self.find(database, grant["lease_id"])
            assert found == [(grant["partition_id"], QUEUE_MODE)]

    async def test_a_lease_over_several_partitions_is_found_whole(
        self, database: asyncpg.Connection
    ) -> None:
        partition_ids = await self.make_partitions(database, 4)
        grants = await pop(database, partition_ids[:3], partition_ids[3:])
        (shared,) = {grant["lease_id"] for grant in grants if grant["request"] == 1}
        (alone,) = {grant["lease_id"] for grant in grants if grant["request"] == 2}
        expected = sorted((one, QUEUE_MODE) for one in partition_ids[:3])
        assert await self.find(database, shared) == expected
        assert await self.find(database, alone) == [(partition_ids[3], QUEUE_MODE)]

    async def test_groups_on_one_partition_have_leases_of_their_own(
        self, database: asyncpg.Connection
    ) -> None:
        (partition_id,) = await self.make_partitions(database, 1)
        for group in ("audit", "billing"):
            (grant,) = await pop(database, [partition_id], group=group)
            assert await self.find(database, grant["lease_id"]) == [(partition_id, group)]

    async def test_a_lease_that_never_was_is_not_found(self, database: asyncpg.Connection) -> None:
        (partition_id,) = await self.make_partitions(database, 1)
        (grant,) = await pop(database, [partition_id])
        # The right partition inside, the wrong rest.
        stranger = UUID(int=UUID(grant["lease_id"]).int ^ 1)
        assert await self.find(database, str(stranger)) == []
        assert await self.find(database, str(uuid4())) == []

    @pytest.mark.parametrize("digits", ["000000000000", "ffffffffffff"])
    async def test_partitions_at_the_ends_of_the_range_are_found(
        self, database: asyncpg.Connection, digits: str
    ) -> None:
        other = await make_partition(database)
        text = f"{digits[:8]}-{digits[8:]}-4000-8000-{digits}"
        for table, column in (("partitions", "id"), ("partition_lookup", "partition_id")):
            await database.execute(
                f"UPDATE queen.{table} SET {column} = $1 WHERE {column} = $2", UUID(text), other
            )
        await push(database, UUID(text))
        (grant,) = await pop(database, [UUID(text)])
        assert await self.find(database, grant["lease_id"]) == [(UUID(text), QUEUE_MODE)]


class TestQueueRooms:
    async def make_queue(
        self, database: asyncpg.Connection, name: str, *, max_size: int, partitions: int = 1
    ) -> tuple[UUID, list[UUID]]:
        made = [
            await make_partition(database, queue=name, partition=f"p{number}")
            for number in range(partitions)
        ]
        queue_id = await database.fetchval(
            "UPDATE queen.queues SET max_size = $2 WHERE name = $1 RETURNING id", name, max_size
        )
        return queue_id, made

    async def rooms(self, database: asyncpg.Connection, *queue_ids: UUID) -> dict[UUID, int]:
        """The room of each queue that has a bound."""
        async with database.transaction():
            found = await database.fetch(
                "SELECT queue_id, room FROM queen.queue_rooms($1)", queue_ids
            )
        return {row["queue_id"]: row["room"] for row in found}

    async def consume(
        self, database: asyncpg.Connection, partition_id: UUID, group: str, cursor_seq: int
    ) -> None:
        await database.execute(
            "INSERT INTO queen.partition_consumers"
            " (partition_id, consumer_group, queue_id, cursor_seq)"
            " SELECT partition_id, $2, queue_id, $3 FROM queen.partition_lookup"
            " WHERE partition_id = $1",
            partition_id,
            group,
            cursor_seq,
        )

    async def test_queues_without_a_bound_have_no_rooms(self, database: asyncpg.Connection) -> None:
        queue_id, _ = await self.make_queue(database, "free", max_size=0)
        assert await self.rooms(database, queue_id) == {}

    async def test_an_empty_queue_has_all_its_room(self, database: asyncpg.Connection) -> None:
        queue_id, _ = await self.make_queue(database, "small", max_size=10)
        assert await self.rooms(database, queue_id, queue_id) == {queue_id: 10}

    async def test_what_waits_in_any_partition_takes_room(
        self, database: asyncpg.Connection
    ) -> None:
        queue_id, places = await self.make_queue(database, "small", max_size=10, partitions=2)
        for place in places:
            await push(database, place, 2)
        assert await self.rooms(database, queue_id) == {queue_id: 6}

    async def test_messages_of_other_queues_take_none(self, database: asyncpg.Connection) -> None:
        queue_id, _ = await self.make_queue(database, "small", max_size=10)
        _, (other,) = await self.make_queue(database, "large", max_size=10)
        await push(database, other, 4)
        assert await self.rooms(database, queue_id) == {queue_id: 10}

    async def test_a_bound_that_was_lowered_leaves_less_than_none(
        self, database: asyncpg.Connection
    ) -> None:
        queue_id, (partition_id,) = await self.make_queue(database, "small", max_size=3)
        await push(database, partition_id, 3)
        await database.execute("UPDATE queen.queues SET max_size = 1")
        assert await self.rooms(database, queue_id) == {queue_id: -2}

    async def test_a_queue_without_a_bound_stands_beside_one_with(
        self, database: asyncpg.Connection
    ) -> None:
        free, _ = await self.make_queue(database, "free", max_size=0)
        small, _ = await self.make_queue(database, "small", max_size=2)
        assert await self.rooms(database, free, small) == {small: 2}

    async def test_the_slowest_group_counts(self, database: asyncpg.Connection) -> None:
        queue_id, (partition_id,) = await self.make_queue(database, "small", max_size=10)
        await push(database, partition_id, 8)
        await self.consume(database, partition_id, "fast", 8)
        assert await self.rooms(database, queue_id) == {queue_id: 10}
        await self.consume(database, partition_id, "slow", 3)
        assert await self.rooms(database, queue_id) == {queue_id: 5}

    async def test_what_retention_removed_takes_no_room(self, database: asyncpg.Connection) -> None:
        queue_id, (partition_id,) = await self.make_queue(database, "small", max_size=10)
        await push(database, partition_id, 8)
        await self.consume(database, partition_id, "slow", 1)
        await database.execute("UPDATE queen.partition_lookup SET first_seq = 6")
        assert await self.rooms(database, queue_id) == {queue_id: 7}

    async def test_rooms_equal_a_count_by_hand(self, database: asyncpg.Connection) -> None:
        for seed in range(20):
            chance = random.Random(seed)
            wanted: dict[UUID, int] = {}
            queue_ids: list[UUID] = []
            for number in range(3):
                name, count = f"q{seed}-{number}", chance.randrange(1, 4)
                _, made = await self.make_queue(database, name, max_size=0, partitions=count)
                waiting = _waiting([await self.fill(database, one, chance) for one in made])
                # The bound comes last: it may be smaller than what waits already.
                size = chance.choice([0, 5, 12, 30])
                queue_id, _ = await self.make_queue(database, name, max_size=size)
                queue_ids += [queue_id] * count
                if size:
                    wanted[queue_id] = size - waiting
            assert await self.rooms(database, *queue_ids) == wanted, f"seed {seed}"

    async def fill(
        self, database: asyncpg.Connection, partition_id: UUID, chance: random.Random
    ) -> tuple[int, dict[str, int]]:
        """Push some and let some groups consume some; how many there are, and the cursors."""
        count = chance.randrange(0, 8)
        if count:
            await push(database, partition_id, count)
        groups = range(chance.randrange(0, 3))
        cursors = {f"g{place}": chance.randrange(0, count + 1) for place in groups}
        for group, cursor_seq in cursors.items():
            await self.consume(database, partition_id, group, cursor_seq)
        return count, cursors


def _waiting(partitions: list[tuple[int, dict[str, int]]]) -> int:
    """Return how many messages some group has still to get. A new group needs all."""
    groups = {group for _, cursors in partitions for group in cursors}
    return sum(
        count - min((cursors.get(group, 0) for group in groups), default=0)
        for count, cursors in partitions
    )


class TestFindStored:
    async def find(
        self, database: asyncpg.Connection, partition_id: UUID, text: object, *, has_prefix: bool
    ) -> UUID | None:
        found: UUID | None = await database.fetchval(
            "SELECT (SELECT s.id FROM queen.find_stored(l.partition_id, $2,"
            " CASE WHEN $3 THEN queen.id_prefix(l.number, now()) END) s)"
            " FROM queen.partition_lookup l WHERE l.partition_id = $1",
            partition_id, str(text), has_prefix,
        )  # fmt: skip
        return found

    @pytest.mark.parametrize("has_prefix", [False, True])
    async def test_a_message_without_an_id_of_its_own_is_found_by_its_message_id(
        self, database: asyncpg.Connection, has_prefix: bool
    ) -> None:
        first = await make_partition(database, partition="a")
        other = await make_partition(database, partition="b")
        made = await push(database, first, 3)
        await push(database, other, 3)
        for one in made:
            assert await self.find(database, first, one, has_prefix=has_prefix) == one
            assert await self.find(database, other, one, has_prefix=has_prefix) is None

    @pytest.mark.parametrize("has_prefix", [False, True])
    async def test_so_is_one_from_before_numbers(
        self, database: asyncpg.Connection, has_prefix: bool
    ) -> None:
        place = await make_partition(database)
        old = UUID(f"0190a0b0c0d07{place.hex[:3]}8{place.hex[3:8]}{1:010x}")
        await push(database, place)
        await database.execute("UPDATE queen.messages SET id = $1", old)
        assert await self.find(database, place, old, has_prefix=has_prefix) == old
