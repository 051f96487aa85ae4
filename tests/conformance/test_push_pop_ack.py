"""Push, pop and ack as a caller sees them."""

from __future__ import annotations

from tests.support.broker import Api, unique


async def test_a_pushed_message_comes_back_and_passes_with_its_ack(api: Api) -> None:
    queue = unique()
    (pushed,) = await api.push(queue, {"n": 1})
    (message,) = await api.pop(queue)
    assert message["data"] == {"n": 1}
    assert message["id"] == pushed["message_id"]
    (result,) = await api.ack(message)
    assert result["success"] and result["leaseReleased"]
    assert await api.pop(queue) == []
