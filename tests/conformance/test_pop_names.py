"""Names of queues, partitions and groups: any text, through any path that a client may build."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from tests.support.broker import Api, unique

NAMES = {
    "space": "two words",
    "slash": "a/b/c",
    "partition-word": "a/partition",
    "encoded-separator": "a/partition/b",
    "queue-word": "queue/x",
    "percent": "100%",
    "percent-escape": "a%2Fb",
    "plus": "a+b",
    "colon": "a:b",
    "question-and-hash": "a?b#c&d=e",
    "dots": "..",
    "dot-segments": "a/../b",
    "semicolon": "a;b=c",
    "emoji": "👩‍👩‍👧 ✉",
    "scripts": "очередь-列-תור",
    "quotes": 'it\'s "quoted" \\ back',
    "sql": "x'; DROP TABLE queen.messages; --",
    "wildcards": "%_*",
    "braces": "{queue:path}",
    "trailing-slash": "a/",
    "blanks-around": " a ",
    "new-line": "a\nb",
    "longest": "é" * 255,
    "group-literal": "__QUEUE_MODE__",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
async def test_a_name_comes_through_an_escaped_path(api: Api, name: str) -> None:
    queue = f"{unique()[:20]} {name}"[:255]
    await api.push(queue, 1, partition=name)
    path = f"/api/v1/pop/queue/{quote(queue, safe='')}"
    anywhere = await api.http.get(path, params={"consumerGroup": name})
    assert anywhere.status_code == 200, anywhere.text
    named = await api.http.get(f"{path}/partition/{quote(name, safe='')}?consumerGroup=other")
    assert named.status_code == 200, named.text
    for answer in (anywhere.json(), named.json()):
        assert (answer["queue"], answer["partition"]) == (queue, name)
        assert answer["messages"][0]["queue"] == queue
    assert anywhere.json()["consumerGroup"] == name


@pytest.mark.parametrize(
    "name",
    ["two words", "a/b/c", "a:b", "a,b;c=d", "a@b!$'()*", "a+b"],
    ids=["space", "slash", "colon", "separators", "marks", "plus"],
)
async def test_a_name_comes_through_a_path_that_the_client_left_to_its_http_library(
    api: Api, name: str
) -> None:
    queue = f"{unique()}{name}"
    await api.push(queue, 1, partition=name)
    assert await api.data(queue, consumerGroup="a") == [1]
    assert await api.data(queue, partition=name, consumerGroup="b") == [1]
    response = await api.http.delete(f"/api/v1/resources/queues/{queue}")
    assert response.json() == {"deleted": True, "queue": queue, "existed": True}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
async def test_a_queue_of_any_name_can_be_configured_cleared_and_deleted(
    api: Api, name: str
) -> None:
    queue = f"{unique()[:20]}/{name}"[:255]
    escaped = quote(queue, safe="")
    assert (await api.configure(queue, leaseTime=7))["queue"] == queue
    await api.push(queue, 1, partition=name)
    cleared = await api.http.delete(f"/api/v1/queues/{escaped}/clear", params={"partition": name})
    assert cleared.status_code == 200, cleared.text
    assert cleared.json()["messagesDeleted"] == 1
    deleted = await api.http.delete(f"/api/v1/resources/queues/{escaped}")
    assert deleted.json() == {"deleted": True, "queue": queue, "existed": True}


async def test_names_differ_by_case_and_blanks(api: Api) -> None:
    queue = unique()
    names = ["a", "A", " a", "a ", "á", "a\u0301"]
    await api.push_items([{"queue": queue, "partition": name, "payload": name} for name in names])
    for name in names:
        response = await api.http.get(f"/api/v1/pop/queue/{queue}/partition/{quote(name)}")
        assert [one["data"] for one in response.json()["messages"]] == [name]


async def test_the_longest_names_together_can_be_subscribed_consumed_and_dead_lettered(
    api: Api,
) -> None:
    # Text that does not compress, three bytes a character: the worst that an index has to hold.
    def longest(start: int) -> str:
        return "".join(chr(0x4E00 + (start + n * n * 7919) % 9973) for n in range(255))

    queue, partition, group, transaction = map(longest, range(4))
    path = f"/api/v1/pop/queue/{quote(queue)}/partition/{quote(partition)}"
    query = {"consumerGroup": group, "subscriptionMode": "new"}
    first = await api.http.get(path, params=query)
    assert first.status_code == 204, first.text
    (pushed,) = await api.push(queue, 1, partition=partition, transactionId=transaction)
    assert pushed["status"] == "queued"
    response = await api.http.get(path, params=query)
    assert response.status_code == 200, response.text
    (message,) = response.json()["messages"]
    (result,) = await api.ack(message, status="dlq", group=group)
    assert result["success"] and result["dlq"]
