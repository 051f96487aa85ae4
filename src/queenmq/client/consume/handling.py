"""Owns what a consumer does with a batch: the handler is called, and what it got is settled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from queenmq.client.builders import called
from queenmq.client.consume.acks import Acker, fail_all, release, settle_failed
from queenmq.client.consume.lanes import Lanes
from queenmq.client.consume.settling import Settler
from queenmq.client.errors import HandlerFailed
from queenmq.client.message import Message, UnreadableMessage, converted
from queenmq.client.tracing import consume_span

if TYPE_CHECKING:
    from queenmq.client.consume.consumption import ConsumeOptions

logger = logging.getLogger(__name__)


class Handling:
    """Handles batches, one message at a time or together."""

    def __init__(
        self,
        settler: Settler,
        options: ConsumeOptions,
        *,
        handle: Callable[[Any], Any] | None,
        on_success: Callable[..., Any] | None,
        on_error: Callable[..., Any] | None,
        is_stopping: Callable[[], bool],
    ) -> None:
        self._settler = settler
        self._options = options
        self._handle = handle
        self._on_success = on_success
        self._on_error = on_error
        self._is_stopping = is_stopping
        # Callbacks settle for themselves.
        self.acks = options.auto_ack and on_success is None and on_error is None

    async def run(self, lanes: Lanes, acker: Acker) -> None:
        """Handle a batch."""
        is_single = self._options.each or self._options.request.batch == 1
        await (self._each if is_single else self._together)(lanes, acker)

    async def _each(self, lanes: Lanes, acker: Acker) -> None:
        """One message at a time; acks go out beside the next handler."""
        settler = self._settler
        try:
            while not self._is_stopping() and (message := lanes.next()) is not None:
                misfit = self.misfit(message)
                if misfit is not None:
                    await self._refuse(message, misfit, lanes, acker)
                    continue
                try:
                    await self._call([message], message)
                except HandlerFailed as failed:
                    if not self.acks:
                        raise
                    log_failure([message], failed.__cause__)
                    await acker.drain()
                    await settle_failed(settler, lanes, message, error_text(failed.__cause__))
                else:
                    if self.acks:
                        acker.add(message)
                    lanes.settle()
        finally:
            if self.acks and lanes.rest():
                await acker.drain()
                await release(settler, lanes.rest())

    async def _refuse(
        self, message: Message[Any], misfit: ValueError, lanes: Lanes, acker: Acker
    ) -> None:
        """Fail the message in hand, which the handler cannot be given.

        Also where the handler acks for itself: it does not get to see this one.
        """
        if self._on_error is not None:
            await called(self._on_error, message, misfit)
            lanes.settle()
            return
        log_misfit(message, misfit)
        await acker.drain()
        await settle_failed(self._settler, lanes, message, error_text(misfit))

    async def _together(self, lanes: Lanes, acker: Acker) -> None:
        """The whole batch in one call. Payloads that do not fit fail alone, with their lane."""
        settler = self._settler
        messages, misfits = self._fitting(lanes)
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
                    await release(settler, messages)
                raise
        if self.acks and not failed:
            acker.add(*messages)
        if misfits and self._on_error is not None:
            for message, misfit in misfits:
                await called(self._on_error, [message], misfit)
        elif failed or misfits:
            for message, misfit in misfits:
                log_misfit(message, misfit)
            await acker.drain()
            await fail_all(settler, [*failed, *((one, error_text(why)) for one, why in misfits)])
            # A misfit that became a dead letter leaves the lease to those behind it.
            await release(settler, lanes.skipped)

    def _fitting(
        self, lanes: Lanes
    ) -> tuple[list[Message[Any]], list[tuple[Message[Any], ValueError]]]:
        """The messages to handle, and the first of each lane that does not fit."""
        good: list[Message[Any]] = []
        bad: list[tuple[Message[Any], ValueError]] = []
        while (message := lanes.next()) is not None:
            misfit = self.misfit(message)
            if misfit is None:
                good.append(message)
                lanes.settle()
            else:
                bad.append((message, misfit))
                lanes.block()
        return good, bad

    def misfit(self, message: Message[Any]) -> ValueError | None:
        """Give the message its payload as the type that was asked for; return why that fails."""
        if self._options.type is None:
            return message.problem if isinstance(message, UnreadableMessage) else None
        try:
            converted(message, self._options.type)
        except ValueError as error:
            return error
        return None

    async def _call(self, messages: Sequence[Message[Any]], argument: Any) -> None:
        """Run the handler and its callbacks; any error of it comes out as HandlerFailed."""
        assert self._handle is not None
        try:
            with consume_span(messages):
                result = await called(self._handle, argument)
        except (Exception, asyncio.CancelledError) as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task and task.cancelling():
                raise
            if self._on_error is None:
                raise HandlerFailed(
                    f"a handler raised {type(error).__name__}: {error}; catch it there, or let "
                    "the consumer ack"
                ) from error
            await called(self._on_error, argument, error)
            return
        if self._on_success is not None:
            await called(self._on_success, argument, result)


def error_text(error: BaseException | None) -> str:
    """What the dead letter will say."""
    return f"{type(error).__name__}: {error}"


def log_failure(messages: Sequence[Message[Any]], error: BaseException | None) -> None:
    """Leave a trace of a handler's error where the consumer runs: the server gets its text only."""
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
    """Say which message its handler was not given, and why."""
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
    """The first message of a batch stands for all of it."""
    first = messages[0]
    return {
        "queue": first.queue,
        "partition": first.partition,
        "transactionId": first.transaction_id,
        "group": first.consumer_group,
        "attempt": first.retry_count + 1,
        "count": len(messages),
    }
