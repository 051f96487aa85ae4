"""The real broker against the model: pushes, pops, acks, expiries and transactions in any order."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg
import httpx
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from tests.stateful.model import RETRY_LIMIT, AckOf, Message, Pair
from tests.support.broker import SOON_S, BrokerProcess, unique

pytestmark = pytest.mark.slow

PARTITIONS = ("a", "b")
GROUPS = ("", "g")
QUEUE_MODE = "__QUEUE_MODE__"

partitions = st.sampled_from(PARTITIONS)
groups = st.sampled_from(GROUPS)
given_ids = st.sampled_from([None, None, *(f"id-{number}" for number in range(6))])
batches = st.integers(1, 4)
#: Which delivery, counted from the latest.
places = st.sampled_from([0, 0, 0, 1, 1, 2, 3, 5, 8])
statuses = st.sampled_from(["completed", "completed", "failed", "retry", "dlq"])

_ROWS = """
SELECT p.name, pc.consumer_group, pc.cursor_seq, pc.lease_id::text, pc.retry_seq, pc.retry_count,
       pc.expiry_count, pc.solo_until_seq,
       CASE WHEN pc.lease_expires_at IS NULL THEN 'none'
            WHEN pc.lease_expires_at > clock_timestamp() THEN 'live'
            ELSE 'expired' END AS lease_state
FROM queen.partition_consumers pc JOIN queen.partitions p ON p.id = pc.partition_id
JOIN queen.queues q ON q.id = p.queue_id WHERE q.name = $1
"""
_DEAD = """
SELECT p.name, d.consumer_group, d.seq FROM queen.dead_letter_queue d
JOIN queen.partitions p ON p.id = d.partition_id JOIN queen.queues q ON q.id = p.queue_id
WHERE q.name = $1
"""
_STORED = """
SELECT p.name, m.seq, m.payload::text FROM queen.messages m
JOIN queen.partitions p ON p.id = m.partition_id JOIN queen.queues q ON q.id = p.queue_id
WHERE q.name = $1 ORDER BY p.name, m.seq
"""
_EXPIRE = """
UPDATE queen.partition_consumers pc SET lease_expires_at = now() - interval '1 second'
FROM queen.partitions p JOIN queen.queues q ON q.id = p.queue_id
WHERE p.id = pc.partition_id AND q.name = $1 AND p.name = $2 AND pc.consumer_group = $3
  AND pc.lease_expires_at IS NOT NULL
"""


Act = Callable[..., None]


class Delivery(NamedTuple):
    """A lease as a consumer got it."""

    partition: str
    group: str
    lease: str
    partition_id: str
    messages: tuple[Message, ...]


class World:
    """The broker's HTTP side, and a look behind it."""

    def __init__(self, http: httpx.Client, runner: asyncio.Runner, database: asyncpg.Connection):
        self._http = http
        self._runner = runner
        self._database = database

    def post(self, path: str, body: Any, *, status: int = 200) -> Any:
        response = self._http.post(path, json=body)
        assert response.status_code == status, response.text
        return response.json()

    def pop(self, queue: str, partition: str | None, **query: str) -> list[dict[str, Any]]:
        place = f"/partition/{partition}" if partition else ""
        response = self._http.get(f"/api/v1/pop/queue/{queue}{place}", params=query)
        assert response.status_code in (200, 204), response.text
        return response.json()["messages"] if response.status_code == 200 else []

    def extend(self, lease: str) -> int:
        return self._http.post(f"/api/v1/lease/{lease}/extend", json={"seconds": 300}).status_code

    def fetch(self, query: str, *values: str) -> list[asyncpg.Record]:
        return self._runner.run(self._database.fetch(query, *values))


@contextmanager
def opened_world(url: str, database_url: str) -> Iterator[World]:
    with asyncio.Runner() as runner, httpx.Client(base_url=url, timeout=SOON_S) as http:
        database = runner.run(asyncpg.connect(database_url))
        try:
            yield World(http, runner, database)
        finally:
            runner.run(database.close())


def about_a_delivery(**drawn: st.SearchStrategy[Any]) -> Callable[[Act], Act]:
    """A rule about one lease that was given, live or not; before the first one it does nothing."""

    def decorate(act: Act) -> Act:
        def run(self: BrokerMachine, place: int, **chosen: Any) -> None:
            if self.deliveries:
                act(self, self.deliveries[-1 - place % len(self.deliveries)], **chosen)

        run.__name__ = act.__name__
        return rule(place=places, **drawn)(run)

    return decorate


class BrokerMachine(RuleBasedStateMachine):
    """One queue with two partitions and two groups; whoever pops acts as that group's consumer."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.queue = unique("machine")
        self.stored: dict[str, list[Message]] = {name: [] for name in PARTITIONS}
        self.pairs = {(name, group): Pair() for name in PARTITIONS for group in GROUPS}
        #: Every lease given. Not a bundle: from which partition an open pop is served is the
        #: broker's choice, and what hypothesis draws must not depend on it.
        self.deliveries: list[Delivery] = []
        self.count = 0

    @initialize()
    def configure(self) -> None:
        options = {"leaseTime": 300, "retryLimit": RETRY_LIMIT, "onPoison": "dlq"}
        self.world.post("/api/v1/configure", {"queue": self.queue, "options": options})
        self._push([(name, None) for name in PARTITIONS for _ in range(6)])

    def _payload(self) -> list[int]:
        self.count += 1
        return [self.count]

    def _item(self, partition: str, given: str | None) -> dict[str, Any]:
        item = {"queue": self.queue, "partition": partition, "payload": self._payload()}
        return item if given is None else {**item, "transactionId": given}

    def _find(self, partition: str, transaction_id: str | None) -> Message | None:
        found = [one for one in self.stored[partition] if one.transaction_id == transaction_id]
        return found[0] if found else None

    def _store(self, item: dict[str, Any], transaction_id: str) -> None:
        messages = self.stored[item["partition"]]
        messages.append(Message(len(messages) + 1, transaction_id, item["payload"][0]))

    @rule(places=st.lists(st.tuples(partitions, given_ids), min_size=1, max_size=4))
    def push(self, places: list[tuple[str, str | None]]) -> None:
        self._push(places)

    def _push(self, places: list[tuple[str, str | None]]) -> None:
        items = [self._item(*place) for place in places]
        answers = self.world.post("/api/v1/push", {"items": items}, status=201)
        for item, answer in zip(items, answers, strict=True):
            earlier = self._find(item["partition"], item.get("transactionId"))
            assert answer["status"] == ("queued" if earlier is None else "duplicate")
            if earlier is None:
                self._store(item, answer["transaction_id"])

    @rule(partition=partitions, group=groups, batch=batches)
    def pop(self, partition: str, group: str, batch: int) -> None:
        self._pop(partition, group, batch, is_auto_ack=False)

    @rule(partition=partitions, group=groups, batch=batches)
    def pop_with_auto_ack(self, partition: str, group: str, batch: int) -> None:
        self._pop(partition, group, batch, is_auto_ack=True)

    @rule(group=groups, batch=batches, is_auto_ack=st.booleans())
    def pop_anywhere(self, group: str, batch: int, is_auto_ack: bool) -> None:
        if any(self.pairs[name, group].has_poison for name in PARTITIONS):
            # Whether the dead end is cleared up on the way is the broker's choice.
            return
        eligible = {
            name for name in PARTITIONS
            if self.pairs[name, group].preview(self.stored[name], batch)
        }  # fmt: skip
        got = self.world.pop(self.queue, None, **_query(group, batch, is_auto_ack))
        assert bool(got) == bool(eligible)
        if got:
            (name,) = {message["partition"] for message in got}
            assert name in eligible
            self._took(name, group, batch, is_auto_ack, got)

    def _pop(self, name: str, group: str, batch: int, *, is_auto_ack: bool) -> Delivery | None:
        got = self.world.pop(self.queue, name, **_query(group, batch, is_auto_ack))
        return self._took(name, group, batch, is_auto_ack, got)

    def _took(
        self, name: str, group: str, batch: int, is_auto_ack: bool, got: list[dict[str, Any]]
    ) -> Delivery | None:
        pair = self.pairs[name, group]
        wanted = pair.pop(self.stored[name], batch, is_auto_ack=is_auto_ack)
        assert [one["data"] for one in got] == [[one.payload] for one in wanted]
        assert [one["transactionId"] for one in got] == [one.transaction_id for one in wanted]
        if not wanted or is_auto_ack:
            assert all(one["leaseId"] == "" for one in got)
            return None
        (lease,) = {one["leaseId"] for one in got}
        assert lease != pair.lease
        pair.lease = lease
        assert [one["retryCount"] for one in got] == [pair.attempts()] + [0] * (len(got) - 1)
        delivery = Delivery(name, group, lease, got[0]["partitionId"], tuple(wanted))
        self.deliveries.append(delivery)
        return delivery

    @about_a_delivery(
        chosen=st.lists(statuses, min_size=4, max_size=4),
        start=st.integers(0, 3),
        has_lease=st.sampled_from([True, True, True, False]),
    )
    def ack(self, delivery: Delivery, chosen: list[str], start: int, has_lease: bool) -> None:
        self._settle(delivery, _acks(delivery, chosen, start, has_lease=has_lease))

    @about_a_delivery()
    def complete(self, delivery: Delivery) -> None:
        self._settle(delivery, _acks(delivery, ["completed"] * 4, 0, has_lease=True))

    @about_a_delivery()
    def fail(self, delivery: Delivery) -> None:
        self._settle(delivery, _acks(delivery, ["failed"] * 4, 0, has_lease=True))

    @about_a_delivery()
    def fail_until_it_is_dead(self, delivery: Delivery) -> None:
        """One consumer that gets the batch again and again and fails on its first message."""
        again: Delivery | None = delivery
        for _ in range(RETRY_LIMIT + 1):
            if again is None:
                return
            self._settle(again, _acks(again, ["failed"] * 4, 0, has_lease=True))
            again = self._pop(delivery.partition, delivery.group, 2, is_auto_ack=False)

    @about_a_delivery()
    def die_until_it_is_poison(self, delivery: Delivery) -> None:
        """One consumer that gets the batch again and again and never comes back from it."""
        for _ in range(RETRY_LIMIT + 1):
            self._expire(delivery.partition, delivery.group)
            self._pop(delivery.partition, delivery.group, 2, is_auto_ack=False)

    @about_a_delivery()
    def let_lease_expire(self, delivery: Delivery) -> None:
        self._expire(delivery.partition, delivery.group)

    @about_a_delivery()
    def renew(self, delivery: Delivery) -> None:
        pair = self.pairs[delivery.partition, delivery.group]
        is_live = pair.lease == delivery.lease and pair.lease_state == "live"
        assert (self.world.extend(delivery.lease) == 200) == is_live

    def _expire(self, partition: str, group: str) -> None:
        self.world.fetch(_EXPIRE, self.queue, partition, group or QUEUE_MODE)
        self.pairs[partition, group].expire()

    def _settle(self, delivery: Delivery, items: list[AckOf]) -> None:
        if not items:
            return
        body = {
            "acknowledgments": [_wire(delivery, item) for item in reversed(items)],
            "consumerGroup": delivery.group or None,
        }
        answers = self.world.post("/api/v1/ack/batch", body)
        rulings = self.pairs[delivery.partition, delivery.group].ack(items)
        for answer, ruling in zip(answers, reversed(rulings), strict=True):
            assert ruling.success in (None, answer["success"]), answer
            assert ruling.is_dead == answer["dlq"], answer

    @about_a_delivery(status=statuses, partition=partitions, given=given_ids)
    def transact(self, delivery: Delivery, status: str, partition: str, given: str | None) -> None:
        pair = self.pairs[delivery.partition, delivery.group]
        items = _acks(delivery, [status] * 4, 0, has_lease=True)
        if any(item.message.seq <= pair.cursor for item in items):
            return
        pushed = self._item(partition, given)
        operations = [{"type": "push", "items": [pushed]}]
        for item in items:
            group = delivery.group or None
            operations.append({"type": "ack", "consumerGroup": group, **_wire(delivery, item)})
        answer = self.world.post("/api/v1/transaction", {"operations": operations})
        trial = copy.deepcopy(pair)
        is_duplicate = given is not None and self._find(partition, given) is not None
        is_good = all(ruling.success for ruling in trial.ack(items, is_final=True))
        assert answer["success"] == (is_good and not is_duplicate), answer
        if answer["success"]:
            self.pairs[delivery.partition, delivery.group] = trial
            self._store(pushed, answer["results"][0]["transactionId"])

    @invariant()
    def cursors_leases_and_retries_are_those_of_the_model(self) -> None:
        rows = {
            (row["name"], _group(row["consumer_group"])): row
            for row in self.world.fetch(_ROWS, self.queue)
        }
        for place, pair in self.pairs.items():
            if place not in rows:
                assert pair == Pair()
                continue
            row = rows[place]
            assert row["cursor_seq"] == pair.cursor
            assert row["lease_state"] == pair.lease_state
            assert (row["retry_seq"], row["retry_count"]) == (pair.retry_seq, pair.retry_count)
            assert row["expiry_count"] == pair.expiry_count
            if pair.lease_state == "live":
                assert row["lease_id"] == pair.lease
                assert (row["solo_until_seq"] or 0) == (pair.solo_until or 0)

    @invariant()
    def dead_letters_are_those_of_the_model(self) -> None:
        rows = self.world.fetch(_DEAD, self.queue)
        found = {(row["name"], _group(row["consumer_group"]), row["seq"]) for row in rows}
        wanted = {(*place, seq) for place, pair in self.pairs.items() for seq in pair.dead}
        assert len(rows) == len(found) and found == wanted

    @invariant()
    def partition_order_is_kept_without_gaps(self) -> None:
        found = [
            (row["name"], row["seq"], json.loads(row["payload"])[0])
            for row in self.world.fetch(_STORED, self.queue)
        ]
        assert found == [
            (name, one.seq, one.payload) for name in PARTITIONS for one in self.stored[name]
        ]

    def teardown(self) -> None:
        """Nothing is lost: what the model still has, every group gets to the last message."""
        for (name, group), pair in self.pairs.items():
            self._expire(name, group)
            for _ in self.stored[name]:
                self._pop(name, group, 100, is_auto_ack=True)
                if pair.cursor == len(self.stored[name]):
                    break
            assert pair.cursor == len(self.stored[name])


def _group(name: str) -> str:
    return "" if name == QUEUE_MODE else name


def _query(group: str, batch: int, is_auto_ack: bool) -> dict[str, str]:
    query = {"batch": str(batch), "autoAck": str(is_auto_ack).lower()}
    return {**query, "consumerGroup": group} if group else query


def _acks(delivery: Delivery, chosen: list[str], start: int, *, has_lease: bool) -> list[AckOf]:
    pairs = zip(delivery.messages[start:], chosen, strict=False)
    return [AckOf(one, status, delivery.lease if has_lease else None) for one, status in pairs]


def _wire(delivery: Delivery, item: AckOf) -> dict[str, Any]:
    lease = {} if item.lease is None else {"leaseId": str(UUID(item.lease))}
    return {
        "transactionId": item.message.transaction_id,
        "partitionId": delivery.partition_id,
        "status": item.status,
        **lease,
    }


def test_broker_behaves_like_its_model(broker: BrokerProcess, shared_database_url: str) -> None:
    with opened_world(broker.url, shared_database_url) as world:
        run_state_machine_as_test(
            lambda: BrokerMachine(world),
            settings=settings(
                max_examples=100,
                stateful_step_count=50,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
