"""Sends the acks of a consumer while the next handler runs, merged when they pile up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from typing import Any

from queenmq import wire
from queenmq.client.consume.ack_client import AckClient
from queenmq.client.consume.ahead import Ahead
from queenmq.client.consume.progress import BatchProgress
from queenmq.client.errors import ClientError
from queenmq.client.http.retry import RetryPolicy
from queenmq.client.message import Message

logger = logging.getLogger(__name__)

#: A lost ack means that work is repeated, so a consumer retries for a minute or two.
PATIENT = RetryPolicy(attempts=30, base_delay=0.1, max_retry_delay=5.0)


class Acker:
    """Acks the handled messages of one batch, in order. At most one request is in flight.

    An ack passes everything before it in its partition, so the last message of a run is enough.
    Other implementations of the server count acks and keep the lease after the last message, as
    their answer shows. They get every ack. With `ahead` the last ack also asks for the next batch.
    """

    def __init__(
        self, ack_client: AckClient, progress: BatchProgress, ahead: Ahead | None = None
    ) -> None:
        self._ack_client = ack_client
        self.progress = progress
        self._ahead = ahead
        self._pending: list[Message[Any]] = []
        self._done: list[Message[Any]] = []
        self._task: asyncio.Task[None] | None = None
        self._is_sending = False
        #: Called when all acks have been sent.
        self._callbacks: list[Callable[[], object]] = []

    def add(self, *messages: Message[Any]) -> None:
        """Ack these messages, after all that were added before."""
        self._pending += messages
        if self._pending and not self._is_sending:
            self._is_sending = True
            self._task = asyncio.create_task(self._send())
            self._task.add_done_callback(self._collect_error)

    def when_sent(self, callback: Callable[[], object]) -> None:
        """Call a function when all added acks have been sent, which may be now."""
        if self._is_sending:
            self._callbacks.append(callback)
        else:
            callback()

    async def drain(self) -> None:
        """Wait until all added acks have been sent, even if the caller is cancelled."""
        task = self._task
        if task is None:
            return
        if self._is_sending:
            # Not the task itself: a cancelled caller would cancel it.
            sent = asyncio.Event()
            self._callbacks.append(sent.set)
            await sent.wait()
        task.result()

    async def _send(self) -> None:
        try:
            while self._pending:
                await self._send_pending()
        finally:
            self._sent()

    def _sent(self) -> None:
        self._is_sending = False
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def _collect_error(self, task: asyncio.Task[None]) -> None:
        """Keep the error of a task. One that was cancelled before it began reports none."""
        if task is self._task and self._is_sending:
            self._sent()

    async def _send_pending(self) -> None:
        messages, self._pending = self._pending, []
        self._done += messages
        try:
            await self._complete(messages)
        except ClientError as error:
            # The messages are redelivered when the lease expires.
            self.progress.lose()
            _warn("acks did not get through", error=str(error), count=len(messages))

    async def _complete(self, messages: list[Message[Any]]) -> None:
        if not self._ack_client.counts_acks:
            messages = list({one.partition_id: one for one in messages}.values())
        for message, result in zip(messages, await self._ack(messages), strict=True):
            if not result.success:
                _warn("an ack was refused", error=str(result.error), count=1)
            if not result.lease_released and self.progress.is_last(message):
                await self._complete_all(message, is_known=result.success)

    async def _ack(self, messages: list[Message[Any]]) -> list[wire.AckResult]:
        ahead = self._ahead if self._ack_client.pops_next and self.progress.is_done else None
        path = None if ahead is None else ahead.ask()
        if ahead is None or path is None:
            return await self._ack_client.ack_each(messages, policy=PATIENT)
        popped: list[Message[Any]] = []
        try:
            results, popped = await self._ack_client.ack_and_pop(messages, path, policy=PATIENT)
        finally:
            ahead.put(popped)
        return results

    async def _complete_all(self, last: Message[Any], *, is_known: bool) -> None:
        """Send the skipped acks, because the lease did not end with its last message.

        It may also have ended earlier, by an ack whose answer was lost. If the server knows the
        last message and this helps, it counts acks, and gets every ack from now on. If not, an
        operator may have deleted that message while it was handled.
        """
        if self._ack_client.counts_acks:
            return
        messages = [one for one in self._done if one.partition_id == last.partition_id]
        if not is_known:
            messages = [one for one in messages if one.id != last.id]
        results = await self._ack_client.ack_each(messages, policy=PATIENT) if messages else []
        self._ack_client.counts_acks = is_known and any(one.lease_released for one in results)


class Tail:
    """The acks of a worker's last batch, which may be in flight when it pops the next one.

    This helps if the next batch comes from other partitions, so it is only done if the last two
    batches did. On a queue with a single busy partition, the next pop would arrive before the ack
    and find the partition leased.
    """

    def __init__(self) -> None:
        self._acker: Acker | None = None
        self._partition_ids: Collection[str] = ()

    def must_ack_first(self, partition_ids: Collection[str]) -> bool:
        """Return whether a batch of these partitions must be acked before the next pop."""
        return not self._partition_ids or not set(self._partition_ids).isdisjoint(partition_ids)

    async def follow(self, acker: Acker, when_sent: Callable[[], object]) -> None:
        """Take over the acks of a handled batch. At most one batch has acks in flight."""
        await self.drain()
        acker.when_sent(when_sent)
        must_ack_first = self.must_ack_first(acker.progress.partition_ids)
        self._partition_ids = acker.progress.partition_ids
        self._acker = acker
        if must_ack_first:
            await self.drain()

    async def drain(self) -> None:
        if self._acker is not None:
            await self._acker.drain()
            self._acker = None


async def ack_failed(
    ack_client: AckClient, progress: BatchProgress, message: Message[Any], text: str
) -> None:
    """Report the current message as failed. Its partition only continues if it is dead-lettered."""
    try:
        (result,) = await ack_client.ack_each([message], False, error=text, policy=PATIENT)
    except ClientError as error:
        _warn("a failure could not be reported", error=str(error), count=1)
        progress.block()
        return
    if result.success and result.dlq and not result.lease_released:
        progress.finish()
    else:
        progress.block()


async def fail_all(ack_client: AckClient, failed: Sequence[tuple[Message[Any], str]]) -> None:
    """Report each message as failed, with the reason, in order of their partitions."""
    for message, text in failed:
        message["_status"], message["_error"] = False, text
    try:
        await ack_client.ack_each([message for message, _ in failed], policy=PATIENT)
    except ClientError as error:
        _warn("failures could not be reported", error=str(error), count=len(failed))


async def release(ack_client: AckClient, messages: Sequence[Message[Any]]) -> None:
    """Return unhandled messages. They are redelivered at once and do not count as failures."""
    if not messages:
        return
    try:
        await ack_client.ack_each(messages, "retry", policy=PATIENT)
    except ClientError as error:
        _warn(
            "messages could not be given back and stay leased",
            error=str(error),
            count=len(messages),
        )


def _warn(text: str, *, error: str, count: int) -> None:
    facts = {"event": "ack_failed", "error": error, "count": count}
    logger.warning("%s (%d): %s", text, count, error, extra=facts)
