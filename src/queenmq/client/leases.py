"""Owns keeping a lease while its messages are handled."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from typing import Literal

from queenmq.client.errors import ClientClosed, ClientError, LeaseLost, NotFound
from queenmq.client.lanes import Lanes
from queenmq.client.settling import Settler
from queenmq.client.transport import Transport

logger = logging.getLogger(__name__)

#: Seconds before the first renewal, and after one that failed: below the shortest lease there is.
_SOON_S = 0.3


@contextlib.contextmanager
def kept_lease(
    lease_id: str, lanes: Lanes, *, settler: Settler, transport: Transport, interval: float
) -> Iterator[None]:
    """Extend the lease from time to time, beginning soon: its length is not known here.

    Each time it is extended by three intervals, so that it outlives two failures. A lease that
    turns out to be lost is noted in the lanes.
    """

    async def renew() -> None:
        with contextlib.suppress(ClientClosed):
            seconds = max(1, round(3 * interval))
            while (outcome := await _extend(lease_id, lanes, settler, seconds)) != "lost":
                await transport.pause(interval if outcome == "kept" else min(_SOON_S, interval))

    tasks: list[asyncio.Task[None]] = []
    timer = asyncio.get_running_loop().call_later(
        min(_SOON_S, interval), lambda: tasks.append(asyncio.create_task(renew()))
    )
    try:
        yield
    finally:
        timer.cancel()
        for task in tasks:
            task.cancel()


async def _extend(
    lease_id: str, lanes: Lanes, settler: Settler, seconds: int
) -> Literal["kept", "lost", "unknown"]:
    """What became of the lease."""
    try:
        await settler.extend(lease_id, seconds)
    except (NotFound, LeaseLost) as error:
        lanes.lose()
        facts = {"event": "lease_lost", "lease_id": lease_id, "error": str(error)}
        logger.warning("a lease was lost while a handler ran", extra=facts)
        return "lost"
    except ClientClosed:
        raise
    except ClientError as error:
        facts = {"event": "renewal_failed", "lease_id": lease_id, "error": str(error)}
        logger.warning("a lease could not be extended; tried again", extra=facts)
        return "unknown"
    return "kept"
