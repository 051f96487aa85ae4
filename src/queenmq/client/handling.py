"""Owns what a consumer does with a batch: the handler is called, and what it got is settled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from queenmq.client.acks import Acker, fail_all, release, settle_failed
from queenmq.client.builders import called
from queenmq.client.errors import HandlerFailed
from queenmq.client.lanes import Lanes
from queenmq.client.message import Message, converted
from queenmq.client.settling import Settler
from queenmq.client.tracing import consume_span

if TYPE_CHECKING:
    from queenmq.client.consumption import ConsumeOptions


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
                try:
                    await self._call([message], message)
                except HandlerFailed as failed:
                    if not self.acks:
                        raise
                    await acker.drain()
                    await settle_failed(settler, lanes, message, _text(failed))
                else:
                    if self.acks:
                        acker.add(message)
                    lanes.settle()
        finally:
            if self.acks and lanes.rest():
                await acker.drain()
                await release(settler, lanes.rest())

    async def _together(self, lanes: Lanes, acker: Acker) -> None:
        """The whole batch in one call. Payloads of a wrong type fail alone, with their lane."""
        settler = self._settler
        messages, misfits = self._fitting(lanes)
        failed: list[tuple[Message[Any], str]] = []
        if messages:
            try:
                await self._call(messages, messages)
            except HandlerFailed as error:
                if not self.acks:
                    raise
                failed = [(message, _text(error)) for message in messages]
            except BaseException:
                if self.acks:
                    await release(settler, messages)
                raise
        if not self.acks:
            return
        if not failed:
            acker.add(*messages)
        if failed or misfits:
            await acker.drain()
            await fail_all(settler, [*failed, *misfits])
            # A misfit that became a dead letter leaves the lease to those behind it.
            await release(settler, lanes.skipped)

    def _fitting(self, lanes: Lanes) -> tuple[list[Message[Any]], list[tuple[Message[Any], str]]]:
        """The messages to handle, and the first of each lane that does not fit the type."""
        good: list[Message[Any]] = []
        bad: list[tuple[Message[Any], str]] = []
        while (message := lanes.next()) is not None:
            try:
                good.append(self.typed(message))
            except ValueError as error:
                bad.append((message, str(error)))
                lanes.block()
            else:
                lanes.settle()
        return good, bad

    def typed(self, message: Message[Any]) -> Message[Any]:
        """The message with its payload as the type that was asked for; raises ValueError."""
        kind = self._options.type
        return message if kind is None else converted(message, kind)

    async def _call(self, messages: Sequence[Message[Any]], argument: Any) -> None:
        """Run the handler and its callbacks; any error of it comes out as HandlerFailed."""
        assert self._handle is not None
        try:
            with consume_span(messages):
                if argument is messages[0]:
                    self.typed(messages[0])
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


def _text(failed: HandlerFailed) -> str:
    """What the dead letter will say."""
    error = failed.__cause__
    return f"{type(error).__name__}: {error}"
