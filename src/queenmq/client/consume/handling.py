"""Handles batches: calls the handler and acks its messages."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from queenmq.client.builders import call_back
from queenmq.client.consume.ack_client import AckClient
from queenmq.client.consume.acks import Acker, ack_failed, fail_all, release
from queenmq.client.consume.progress import BatchProgress
from queenmq.client.errors import HandlerFailed
from queenmq.client.message import Message, UnreadableMessage, convert_message
from queenmq.client.tracing import consume_span

if TYPE_CHECKING:
    from queenmq.client.consume.consumption import ConsumeOptions

logger = logging.getLogger(__name__)


class Handling:
    """Handles batches, one message at a time or together."""

    def __init__(
        self,
        ack_client: AckClient,
        options: ConsumeOptions,
        *,
        handle: Callable[[Any], Any] | None,
        on_success: Callable[..., Any] | None,
        on_error: Callable[..., Any] | None,
        is_stopping: Callable[[], bool],
    ) -> None:
        self._ack_client = ack_client
        self._options = options
        self._handle = handle
        self._on_success = on_success
        self._on_error = on_error
        self._is_stopping = is_stopping
        # Callbacks ack for themselves.
        self.acks = options.auto_ack and on_success is None and on_error is None

    async def run(self, progress: BatchProgress, acker: Acker) -> None:
        """Handle a batch."""
        is_single = self._options.each or self._options.request.batch == 1
        await (self._each if is_single else self._together)(progress, acker)

    async def _each(self, progress: BatchProgress, acker: Acker) -> None:
        """Handle one message at a time. Acks are sent while the next handler runs."""
        ack_client = self._ack_client
        try:
            while not self._is_stopping() and (message := progress.next()) is not None:
                misfit = self.misfit(message)
                if misfit is not None:
                    await self._refuse(message, misfit, progress, acker)
                    continue
                try:
                    await self._call([message], message)
                except HandlerFailed as failed:
                    if not self.acks:
                        raise
                    log_failure([message], failed.__cause__)
                    await acker.drain()
                    await ack_failed(ack_client, progress, message, error_text(failed.__cause__))
                else:
                    if self.acks:
                        acker.add(message)
                    progress.finish()
        finally:
            if self.acks and progress.rest():
                await acker.drain()
                await release(ack_client, progress.rest())

    async def _refuse(
        self, message: Message[Any], misfit: ValueError, progress: BatchProgress, acker: Acker
    ) -> None:
        """Fail the current message, because its payload cannot be passed to the handler.

        This also happens if the handler acks for itself, because it never sees this message.
        """
        if self._on_error is not None:
            await call_back(self._on_error, message, misfit)
            progress.finish()
            return
        log_misfit(message, misfit)
        await acker.drain()
        await ack_failed(self._ack_client, progress, message, error_text(misfit))

    async def _together(self, progress: BatchProgress, acker: Acker) -> None:
        """Handle the whole batch in one call.

        A payload that does not fit only fails its own message and stops its partition.
        """
        ack_client = self._ack_client
        messages, misfits = self._split_fitting(progress)
        failed: list[tuple[Message[Any], str]] = []
        if messages:
            try:
                await self._call(messages, messages)
            except HandlerFailed as error:
                if not self.acks:
                    raise
                log_failure(messages, error.__cause__)
                failed = [(message, error_text(error.__cause__)) for message in messages]
            except BaseException:
                if self.acks:
                    await release(ack_client, messages)
                raise
        if self.acks and not failed:
            acker.add(*messages)
        if misfits and self._on_error is not None:
            for message, misfit in misfits:
                await call_back(self._on_error, [message], misfit)
        elif failed or misfits:
            for message, misfit in misfits:
                log_misfit(message, misfit)
            await acker.drain()
            await fail_all(ack_client, [*failed, *((one, error_text(why)) for one, why in misfits)])
            # After a misfit is dead-lettered, the lease still covers the messages behind it.
            await release(ack_client, progress.skipped)

    def _split_fitting(
        self, progress: BatchProgress
    ) -> tuple[list[Message[Any]], list[tuple[Message[Any], ValueError]]]:
        """Return the messages to handle, and the first misfit of each partition."""
        good: list[Message[Any]] = []
        bad: list[tuple[Message[Any], ValueError]] = []
        while (message := progress.next()) is not None:
            misfit = self.misfit(message)
            if misfit is None:
                good.append(message)
                progress.finish()
            else:
                bad.append((message, misfit))
                progress.block()
        return good, bad

    def misfit(self, message: Message[Any]) -> ValueError | None:
        """Convert the payload of the message. Return the reason if that fails."""
        if self._options.type is None:
            return message.problem if isinstance(message, UnreadableMessage) else None
        try:
            convert_message(message, self._options.type)
        except ValueError as error:
            return error
        return None

    async def _call(self, messages: Sequence[Message[Any]], argument: Any) -> None:
        """Run the handler and its callbacks. Raises HandlerFailed for any of their errors."""
        assert self._handle is not None
        try:
            with consume_span(messages):
                result = await call_back(self._handle, argument)
        except (Exception, asyncio.CancelledError) as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task and task.cancelling():
                raise
            if self._on_error is None:
                raise HandlerFailed(
                    f"a handler raised {type(error).__name__}: {error}; catch it there, or let "
                    "the consumer ack"
                ) from error
            await call_back(self._on_error, argument, error)
            return
        if self._on_success is not None:
            await call_back(self._on_success, argument, result)


def error_text(error: BaseException | None) -> str:
    """Return the error text that the dead letter will carry."""
    return f"{type(error).__name__}: {error}"


def log_failure(messages: Sequence[Message[Any]], error: BaseException | None) -> None:
    """Log a handler's error with its traceback. The server only gets its text."""
    facts = _facts(messages)
    logger.error(
        "handler failed: queue %s, partition %s, message %s, attempt %d",
        facts["queue"],
        facts["partition"],
        facts["transactionId"],
        facts["attempt"],
        exc_info=error,
        extra={"event": "handler_failed", **facts},
    )


def log_misfit(message: Message[Any], misfit: ValueError) -> None:
    """Log which message the handler did not get, and why."""
    facts = _facts([message])
    logger.error(
        "message not handled: queue %s, partition %s, message %s, attempt %d: %s",
        facts["queue"],
        facts["partition"],
        facts["transactionId"],
        facts["attempt"],
        misfit,
        extra={"event": "payload_refused", **facts, "error": error_text(misfit)},
    )


def _facts(messages: Sequence[Message[Any]]) -> dict[str, Any]:
    """Return the log fields of a batch, from its first message."""
    first = messages[0]
    return {
        "queue": first.queue,
        "partition": first.partition,
        "transactionId": first.transaction_id,
        "group": first.consumer_group,
        "attempt": first.retry_count + 1,
        "count": len(messages),
    }
