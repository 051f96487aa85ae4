"""Keeps a lease alive while its messages are handled."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Literal

from queenmq.client.consume.ack_client import AckClient
from queenmq.client.consume.progress import BatchProgress
from queenmq.client.errors import ClientClosed, ClientError, LeaseExpired, ResourceNotFound
from queenmq.client.http.transport import Transport

logger = logging.getLogger(__name__)

#: Seconds before the first renewal and after a failed one: less than the shortest lease.
_SOON_S = 0.3


class KeptLease:
    """Extends the lease of a batch periodically, until it is stopped.

    It begins soon, because the client does not know the length of the lease. Each renewal covers
    three intervals, so that the lease survives two failures. A lost lease is noted in the progress.
    """

    def __init__(
        self,
        progress: BatchProgress,
        *,
        ack_client: AckClient,
        transport: Transport,
        interval: float,
    ) -> None:
        self._progress = progress
        self._ack_client = ack_client
        self._transport = transport
        self._interval = interval
        self._task: asyncio.Task[None] | None = None
        # Most batches end before a task is needed.
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(min(_SOON_S, interval), self._start)

    def stop(self) -> None:
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def _start(self) -> None:
        self._task = asyncio.create_task(self._renew())

    async def _renew(self) -> None:
        progress, interval = self._progress, self._interval
        seconds = max(1, round(3 * interval))
        with contextlib.suppress(ClientClosed):
            while True:
                outcome = await _extend(progress.lease_id, progress, self._ack_client, seconds)
                if outcome == "lost":
                    return
                pause_s = interval if outcome == "kept" else min(_SOON_S, interval)
                await self._transport.pause(pause_s)


async def _extend(
    lease_id: str, progress: BatchProgress, ack_client: AckClient, seconds: int
) -> Literal["kept", "lost", "unknown"]:
    """Extend the lease and return its state."""
    try:
        await ack_client.extend(lease_id, seconds)
    except (ResourceNotFound, LeaseExpired) as error:
        progress.lose()
        facts = {"event": "lease_lost", "lease_id": lease_id, "error": str(error)}
        logger.warning("A lease was lost while its handler ran: %s", error, extra=facts)
        return "lost"
    except ClientClosed:
        raise
    except ClientError as error:
        facts = {"event": "renewal_failed", "lease_id": lease_id, "error": str(error)}
        logger.warning("Could not extend a lease; retrying: %s", error, extra=facts)
        return "unknown"
    return "kept"
