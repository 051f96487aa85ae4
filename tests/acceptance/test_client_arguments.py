"""Arguments that cannot be right are refused before anything is sent, in each way of calling."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from queenmq import Queen, SyncQueen
from tests.support.broker import BrokerProcess, unique


@pytest.fixture
def plain(broker: BrokerProcess) -> Iterator[SyncQueen]:
    with SyncQueen(broker.url) as client:
        yield client


async def test_a_misspelt_option_leaves_the_queue_as_it_is(queen: Queen) -> None:
    queue = unique()
    await queen.create_queue(queue, lease_time=90, retry_limit=9)
    with pytest.raises(ValueError, match=r"no option 'lease_tim'; did you mean leaseTime\?"):
        await queen.create_queue(queue, lease_tim=5)
    with pytest.raises(ValueError, match="did you mean leaseTime"):
        await queen.queue(queue).config({"lease_tim": 5}).create()
    options = (await queen.admin.get_queue(queue)).options
    assert (options.lease_time, options.retry_limit) == (90, 9)


def test_a_misspelt_option_is_refused_without_a_loop(plain: SyncQueen) -> None:
    with pytest.raises(ValueError, match="did you mean leaseTime"):
        plain.create_queue(unique(), lease_tim=5)
    with pytest.raises(ValueError, match="did you mean leaseTime"):
        plain.queue(unique()).config({"lease_tim": 5}).create()
