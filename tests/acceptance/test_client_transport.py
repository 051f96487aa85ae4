"""The client against a bad network and foreign answers: retries, failover, tokens, errors."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

import queenmq
from queenmq import Queen
from queenmq.client.errors import (
    BadRequest,
    ClientClosed,
    LeaseExpired,
    NotAllowed,
    OperationFailed,
    PushFailed,
    RequestFailed,
    ResourceConflict,
    ResourceNotFound,
    ServerBusy,
    TransactionFailed,
    Unreachable,
)
from tests.support.broker import SOON_S, BrokerProcess, unique
from tests.support.faulty_proxy import faulty_proxy
from tests.support.scripted_server import Cut, Say, Silence, scripted

QUEUED = [
    {
        "index": 0, "status": "queued", "transaction_id": "t", "message_id": "m",
        "partition_id": "p", "trace_id": None, "queueName": "q",
    }
]  # fmt: skip
FAST: dict[str, Any] = {"retry_delay_millis": 1, "max_retry_delay": 0.05}


@pytest.mark.parametrize(
    "trouble",
    [
        Say(429, {"error": "slow down"}, {"Retry-After": "0"}),
        Say(429, {"error": "slow down"}, {"Retry-After": "3600"}),
        Say(503, {"error": "database"}),
        Say(500, b"<html>oops</html>"),
        Cut(),
        Cut(Say(201, QUEUED), after_bytes=60),
    ],
    ids=["429", "429 for long", "503", "500", "cut", "truncated"],
)
async def test_a_push_is_repeated_as_it_was(trouble: Say | Cut) -> None:
    async with scripted(trouble, trouble, Say(201, QUEUED)) as server:
        async with Queen(server.url, **FAST) as queen:
            assert await queen.push("q", {"total": 5}) == QUEUED
    assert len(server.seen) == 3
    bodies = [request.body for request in server.seen]
    assert bodies[0] == bodies[1] == bodies[2]
    assert bodies[0]["items"][0]["transactionId"]


async def test_several_messages_share_one_key_on_every_try() -> None:
    async with scripted(Cut(), Say(503, {"error": "x"}), Say(201, QUEUED * 2)) as server:
        async with Queen(server.url, **FAST) as queen:
            await queen.push("q", [1, 2])
    assert {request.path for request in server.seen} == {"/api/v1/push/once"}
    bodies = [request.body for request in server.seen]
    assert bodies[0] == bodies[1] == bodies[2]
    assert bodies[0]["idempotencyKey"]
    assert not any("transactionId" in item for item in bodies[0]["items"])


async def test_a_server_that_knows_no_keys_gets_named_messages() -> None:
    unknown = Say(404, {"error": "No route matches", "code": "no_such_route"})
    async with scripted(unknown, Cut(), Say(201, QUEUED * 2), Say(201, QUEUED * 2)) as server:
        async with Queen(server.url, **FAST) as queen:
            await queen.push("q", [1, 2])
            await queen.push("q", [3, 4])
    paths = [request.path for request in server.seen]
    assert paths == ["/api/v1/push/once", *["/api/v1/push"] * 3], "asked once, then known"
    bodies = [request.body for request in server.seen[1:]]
    assert bodies[0] == bodies[1], "the try that got no answer is repeated as it was"
    for body in bodies:
        assert "idempotencyKey" not in body
        assert all(item["transactionId"] for item in body["items"])


@pytest.mark.parametrize(
    "trouble",
    [Cut(), Say(503, {"error": "x"}), Say(502, b"bad gateway")],
    ids=["cut", "503", "502"],
)
async def test_a_push_that_may_be_stored_under_its_key_is_not_sent_without_it(
    trouble: Say | Cut,
) -> None:
    unknown = Say(404, {"error": "No route matches", "code": "no_such_route"})
    async with scripted(trouble, unknown) as server:
        async with Queen(server.url, **FAST) as queen:
            with pytest.raises(ResourceNotFound) as caught:
                await queen.push("q", [1, 2])
    assert caught.value.is_repeated
    assert len(server.seen) == 2


@pytest.mark.parametrize(
    ("body", "kind", "code"),
    [
        ({"error": "gone", "code": "lease_lost"}, LeaseExpired, "lease_lost"),
        ({"error": "not so", "code": "conflict"}, ResourceConflict, "conflict"),
        ({"error": "not so", "code": "of_tomorrow"}, ResourceConflict, "of_tomorrow"),
        # A broker of release 0.1 sends no codes.
        ({"error": "Lease already expired: x is not live any more"}, LeaseExpired, "lease_lost"),
        ({"error": "message 'x' is not a dead letter", "code": 5}, ResourceConflict, None),
    ],
)
async def test_a_conflict_is_told_by_its_code(
    body: Any, kind: type[RequestFailed], code: str | None
) -> None:
    async with scripted(Say(409, body)) as server, Queen(server.url) as queen:
        with pytest.raises(ResourceConflict) as caught:
            await queen.push("q", 1)
    assert (type(caught.value), caught.value.code) == (kind, code)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, BadRequest),
        (401, NotAllowed),
        (403, NotAllowed),
        (404, ResourceNotFound),
        (409, ResourceConflict),
        (413, BadRequest),
    ],
)
async def test_a_refusal_is_raised_at_once_with_the_server_s_sentence(
    status: int, kind: type[RequestFailed]
) -> None:
    async with scripted(Say(status, {"error": "because"})) as server:
        async with Queen(server.url, **FAST) as queen:
            with pytest.raises(kind, match="because") as caught:
                await queen.push("q", 1)
    assert (caught.value.status, caught.value.reason) == (status, "because")
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    ("trouble", "kind"),
    [
        pytest.param(Say(503), ServerBusy, id="503"),
        pytest.param(Say(429), ServerBusy, id="429"),
        pytest.param(Say(500), RequestFailed, id="500"),
        pytest.param(Cut(), Unreachable, id="cut"),
    ],
)
async def test_trouble_that_does_not_pass_is_raised_after_the_last_attempt(
    trouble: Say | Cut, kind: type[Exception]
) -> None:
    async with scripted(trouble) as server:
        async with Queen(server.url, retry_attempts=4, **FAST) as queen:
            with pytest.raises(kind):
                await queen.push("q", 1)
    assert len(server.seen) == 4


async def test_429_is_raised_at_once_when_that_is_asked_for() -> None:
    async with scripted(Say(429, {"error": "slow down"})) as server:
        async with Queen(server.url, retry_on_429=False) as queen:
            with pytest.raises(ServerBusy):
                await queen.pop("q")
    assert len(server.seen) == 1


async def test_the_server_says_how_long_to_wait_unless_nobody_is_to_listen() -> None:
    busy = Say(429, {"error": "slow down"}, {"Retry-After": "3600"})
    options: dict[str, Any] = {"retry_delay_millis": 0, "max_retry_delay": 7200.0}
    async with scripted(busy, Say(201, QUEUED)) as server:
        queen = Queen(server.url, **options)
        waiting = asyncio.ensure_future(queen.push("q", 1))
        done, _ = await asyncio.wait([waiting], timeout=0.1)
        assert not done and len(server.seen) == 1
        await queen.close()
        with pytest.raises(ClientClosed):
            await waiting
    async with scripted(busy, Say(201, QUEUED)) as server:
        async with Queen(server.url, honor_retry_after=False, **options) as queen:
            assert await queen.push("q", 1) == QUEUED


async def test_202_is_success_and_buffered_items_come_back_as_they_are() -> None:
    buffered = [{"index": 0, "status": "buffered", "operationId": "op"}]
    async with scripted(Say(202, buffered)) as server, Queen(server.url) as queen:
        assert await queen.push("q", 1) == buffered
    assert len(server.seen) == 1


async def test_a_push_that_was_put_off_is_polled_to_its_end() -> None:
    pushed = [
        {"index": 0, "status": "buffered", "operationId": "op 1"},
        {"index": 1, "status": "buffered"},
        {"index": 2, "status": "buffered", "operationId": "op 1"},
    ]
    stored = [{"status": "queued", "message_id": "a"}, {"status": "duplicate", "message_id": "b"}]
    script = [
        Say(202, pushed),
        Say(200, {"id": "op 1", "status": "pending"}),
        Say(503),
        Say(200, {"id": "op 1", "status": "processing"}),
        Say(200, {"id": "op 1", "status": "completed", "result": stored}),
    ]
    async with scripted(*script) as server:
        async with Queen(server.url, queued_operation_behavior="poll", **FAST) as queen:
            results = await queen.push("q", [1, 2, 3])
    assert [one.status for one in results] == ["queued", "buffered", "duplicate"]
    assert [one.message_id for one in results] == ["a", None, "b"]
    assert {request.path for request in server.seen[1:]} == {"/api/v1/operations/op%201"}


@pytest.mark.parametrize("status", ["failed", "discarded"])
async def test_a_push_that_was_put_off_and_failed_raises(status: str) -> None:
    pushed = [{"index": 0, "status": "buffered", "operationId": "op"}]
    ended = {"id": "op", "status": status, "error": "no disk"}
    async with scripted(Say(202, pushed), Say(200, ended)) as server:
        async with Queen(server.url, queued_operation_behavior="poll") as queen:
            with pytest.raises(PushFailed, match="no disk") as caught:
                await queen.push("q", 1)
    assert caught.value.results[0]["operationId"] == "op"


async def test_a_push_that_stays_put_off_raises_in_time() -> None:
    pushed = [{"index": 0, "status": "buffered", "operationId": "op"}]
    async with scripted(Say(202, pushed), Say(200, {"status": "pending"})) as server:
        options: Any = {"queued_operation_behavior": "poll", "operation_timeout": 0.05}
        async with Queen(server.url, **options) as queen:
            with pytest.raises(OperationFailed, match="pending"):
                await queen.push("q", 1)


@pytest.mark.parametrize("body", [b"<html>login</html>", b"", {"messages": 5}, [1, 2]])
async def test_an_answer_that_is_not_queen_s_is_told_from_an_empty_one(body: Any) -> None:
    async with scripted(Say(200, body)) as server, Queen(server.url) as queen:
        if body == b"":
            assert await queen.pop("q") == []
        else:
            with pytest.raises(RequestFailed, match="cannot be read"):
                await queen.pop("q")


async def test_204_is_an_empty_list() -> None:
    async with scripted(Say(204)) as server, Queen(server.url) as queen:
        assert await queen.pop("q", wait=True, timeout_ms=10) == []


async def test_a_server_that_says_nothing_is_given_up() -> None:
    async with scripted(Silence()) as server:
        async with Queen(server.url, timeout_millis=50, retry_attempts=2, **FAST) as queen:
            with pytest.raises(Unreachable):
                await queen.push("q", 1)
    assert len(server.seen) == 2


async def test_close_ends_a_request_that_waits_for_its_next_try() -> None:
    async with scripted(Say(503, None, {"Retry-After": "600"})) as server:
        queen = Queen(server.url, max_retry_delay=600)
        push = asyncio.create_task(queen.push("q", 1))
        while not server.seen:
            await asyncio.wait([push], timeout=0.01)
        await queen.close()
        with pytest.raises(ClientClosed):
            await asyncio.wait_for(push, SOON_S)
        with pytest.raises(ClientClosed):
            await queen.push("q", 1)


async def test_tokens_and_headers_are_sent_and_a_token_may_change() -> None:
    tokens = iter("abc")

    async def later() -> str:
        return next(tokens)

    async with scripted(Say(201, QUEUED)) as server:
        for token in ("fixed", lambda: next(tokens), later):
            async with Queen(server.url, bearer_token=token, headers={"X-Team": "t"}) as queen:
                await queen.push("q", 1)
    assert [seen.headers["authorization"] for seen in server.seen] == [
        "Bearer fixed", "Bearer a", "Bearer b",
    ]  # fmt: skip
    assert {seen.headers["x-team"] for seen in server.seen} == {"t"}


async def test_another_json_library_can_be_used() -> None:
    class Loud:
        def dumps(self, value: Any) -> str:
            return json.dumps(value)

        def loads(self, text: bytes) -> Any:
            return json.loads(text.decode().upper().replace("MESSAGES", "messages"))

    async with scripted(Say(200, {"messages": []})) as server:
        async with Queen(server.url, json=Loud()) as queen:
            assert await queen.pop("q") == []
        async with Queen(server.url, json=json) as queen:
            assert await queen.pop("q") == []


async def test_a_failing_server_is_left_out_and_the_others_take_over() -> None:
    async with scripted(Say(503)) as ill, scripted(Say(201, QUEUED)) as well:
        options: Any = {"load_balancing_strategy": "round-robin", "retry_attempts": 1}
        async with Queen([ill.url, well.url], **options) as queen:
            for _ in range(10):
                assert await queen.push("q", 1) == QUEUED
    assert len(ill.seen) == 1
    assert len(well.seen) == 10


async def test_a_server_comes_back_after_its_time() -> None:
    async with scripted(Cut(), Say(201, QUEUED)) as once_ill, scripted(Say(201, QUEUED)) as well:
        urls = [once_ill.url, well.url]
        async with Queen(urls, health_retry_after_millis=0) as queen:
            for number in range(50):
                await queen.push(f"queue-{number}", 1)
    assert len(once_ill.seen) > 5 and len(well.seen) > 5


async def test_one_queue_partition_and_group_stay_on_one_server() -> None:
    async with scripted(Say(204)) as one, scripted(Say(204)) as other:
        async with Queen([one.url, other.url]) as queen:
            for number in range(20):
                for _ in range(3):
                    await queen.pop(f"queue-{number}", group="g")
    for server in (one, other):
        paths = [seen.path for seen in server.seen]
        assert paths and all(paths.count(path) == 3 for path in paths)


async def test_acks_go_to_the_server_that_the_group_pops_from() -> None:
    message = {"id": "i", "transactionId": "t", "data": 1, "partitionId": "p", "leaseId": "l"}

    def popped(queue: str) -> Say:
        return Say(200, {"messages": [{**message, "queue": queue, "consumerGroup": "g"}]})

    done = Say(200, [{"index": 0, "transactionId": "t", "success": True}])
    queues = [f"q{number}" for number in range(8)]
    for queue in queues:
        async with scripted(popped(queue), done) as one, scripted(popped(queue), done) as other:
            async with Queen([one.url, other.url]) as queen:
                assert (await queen.ack(await queen.pop(queue, group="g")))["success"]
            assert sorted([len(one.seen), len(other.seen)]) == [0, 2]


async def test_all_servers_down_is_unreachable_and_says_where() -> None:
    async with Queen("http://127.0.0.1:9", **FAST) as queen:
        with pytest.raises(Unreachable, match=r"127\.0\.0\.1:9"):
            await queen.push("q", 1)


async def test_a_push_whose_answer_was_lost_is_stored_once(broker: BrokerProcess) -> None:
    queue = unique()
    async with faulty_proxy(broker.url) as proxy, Queen(proxy.url, **FAST) as queen:
        proxy.lose_answers = 1
        (result,) = await queen.push(queue, "once")
        assert result["status"] == "duplicate"
        messages = await queen.pop(queue, batch=10)
    assert [message.data for message in messages] == ["once"]


async def test_a_transaction_whose_answer_was_lost_is_done_once(broker: BrokerProcess) -> None:
    source, target = unique(), unique()
    async with faulty_proxy(broker.url) as proxy, Queen(proxy.url, **FAST) as queen:
        await queen.push(source, 1)
        (message,) = await queen.pop(source)
        proxy.lose_answers = 1
        result = await queen.transaction().push(target, "once").ack(message).commit()
        assert result["success"] is True
        assert [one.data for one in await queen.pop(target, batch=10)] == ["once"]


async def test_pushes_of_a_transaction_whose_answer_was_lost_are_stored_once(
    broker: BrokerProcess,
) -> None:
    queue = unique()
    async with faulty_proxy(broker.url) as proxy, Queen(proxy.url, **FAST) as queen:
        proxy.lose_answers = 2
        transaction = queen.transaction().push(queue, [1, {"data": 2, "transactionId": "mine"}])
        result = await transaction.commit()
        assert [one["transactionId"] for one in result["results"]][1] == "mine"
        messages = await queen.pop(queue, batch=10)
        assert [one.data for one in messages] == [1, 2]
        assert [one["messageId"] for one in result["results"]] == [one.id for one in messages]
        # A transaction is done once, however often it is committed.
        assert await transaction.commit() == result


async def test_a_refusal_after_a_lost_answer_is_called_uncertain(broker: BrokerProcess) -> None:
    queue = unique()
    async with faulty_proxy(broker.url) as proxy, Queen(proxy.url, **FAST) as queen:
        await queen.push(queue, {"data": 1, "transactionId": "mine"})
        proxy.lose_answers = 1
        transaction = queen.transaction().push(queue, {"data": 1, "transactionId": "mine"})
        with pytest.raises(TransactionFailed) as caught:
            await transaction.commit()
        assert caught.value.is_uncertain
        with pytest.raises(TransactionFailed) as again:
            await transaction.commit()
        assert not again.value.is_uncertain


async def test_a_refusal_after_an_unclear_answer_is_called_uncertain() -> None:
    refused = Say(
        200, {"transactionId": "t", "success": False, "results": [], "error": "Duplicate"}
    )
    async with (
        scripted(Say(504, b"too late"), refused) as server,
        Queen(server.url, **FAST) as queen,
    ):
        with pytest.raises(TransactionFailed, match="without a clear answer") as caught:
            await queen.transaction().push("q", 1).commit()
    assert caught.value.is_uncertain


async def test_a_refusal_is_certain_if_nothing_was_sent_before(broker: BrokerProcess) -> None:
    urls, queue = ["http://127.0.0.1:9", broker.url], unique()
    async with Queen(urls, load_balancing_strategy="round-robin", **FAST) as queen:
        await queen.push(queue, {"data": 1, "transactionId": "mine"})
        for _ in range(2):
            with pytest.raises(TransactionFailed) as caught:
                await queen.transaction().push(queue, {"data": 1, "transactionId": "mine"}).commit()
            assert not caught.value.is_uncertain


async def test_a_server_that_counts_acks_is_sent_all_of_them() -> None:
    """A lease that stays after its last message was acked shows such a server."""

    def popped(*numbers: int) -> Say:
        place = {"partitionId": "p", "leaseId": "l", "consumerGroup": "__QUEUE_MODE__"}
        return Say(200, {"messages": [
            {"id": f"i{n}", "transactionId": f"t{n}", "data": n, **place} for n in numbers
        ]})  # fmt: skip

    def acked(count: int, *, is_released: bool) -> Say:
        one = {"index": 0, "transactionId": "t", "success": True, "leaseReleased": is_released}
        return Say(200, [one] * count)

    script = [
        popped(1, 2, 3), acked(1, is_released=False), acked(3, is_released=True),
        popped(4, 5), acked(2, is_released=True),
    ]  # fmt: skip
    async with scripted(*script) as server, Queen(server.url) as queen:
        await asyncio.wait_for(queen.consume("q", lambda messages: None, batch=3, limit=5), SOON_S)
    names = [
        [one["transactionId"] for one in seen.body["acknowledgments"]]
        for seen in server.seen
        if seen.method == "POST"
    ]
    assert names == [["t3"], ["t1", "t2", "t3"], ["t4", "t5"]]


def test_options_are_checked() -> None:
    with pytest.raises(TypeError, match="colour"):
        queenmq.Queen("http://localhost", colour="red")  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="URL"):
        queenmq.Queen()
    with pytest.raises(ValueError, match="poll"):
        queenmq.Queen("http://localhost", queued_operation_behavior="x")  # type: ignore[arg-type]
    assert queenmq.Queen({"url": "http://localhost", "retry_attempts": 1}) is not None
