"""Laws of the order inside a leased batch, over random batches and fates of messages."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from queenmq.client.consume.progress import BatchProgress, Budget
from queenmq.client.message import Message

fates = st.sampled_from(["handled", "comes again", "lost", "stop"])


def _messages(partitions: list[int]) -> list[Message[int]]:
    return [
        Message(id=str(n), transaction_id=str(n), data=n, partition_id=str(partition))
        for n, partition in enumerate(partitions)
    ]


@given(partitions=st.lists(st.integers(0, 3), max_size=30), story=st.lists(fates, max_size=30))
def test_each_lane_is_a_prefix_in_order_and_the_rest_is_released_once(
    partitions: list[int], story: list[str]
) -> None:
    messages = _messages(partitions)
    progress, handled, blocked, is_lost = BatchProgress(messages), [], set(), False
    for fate in story:
        message = progress.next()
        if message is None:
            break
        assert not is_lost
        assert message.partition_id not in blocked
        if fate == "stop":
            break
        if fate == "comes again":
            blocked.add(message.partition_id)
            progress.block()
            continue
        handled.append(message)
        progress.finish()
        if fate == "lost":
            is_lost = True
            progress.lose()
    for partition in {message.partition_id for message in messages}:
        run = [message for message in messages if message.partition_id == partition]
        done = [message for message in handled if message.partition_id == partition]
        assert done == run[: len(done)]
        rest = [message for message in progress.rest() if message.partition_id == partition]
        if is_lost or partition in blocked:
            assert rest == []
        else:
            assert done + rest == run


@given(limit=st.integers(0, 50), steps=st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9))))
def test_a_limit_is_never_passed_and_always_reached(
    limit: int, steps: list[tuple[int, int]]
) -> None:
    budget, got, asked = Budget(limit), 0, []
    for wanted, brought in steps:
        share = budget.take(wanted)
        assert got + sum(asked) + share <= limit
        asked.append(share)
        if len(asked) > 3:
            first = asked.pop(0)
            used = min(first, brought)
            budget.give_back(first, used)
            got += used
    for share in asked:
        budget.give_back(share, share)
        got += share
    while not budget.is_spent:
        share = budget.take(5)
        budget.give_back(share, share)
        got += share
    assert got == limit
