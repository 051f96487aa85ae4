"""Runs a stream: pops, plans, commits; closes windows of partitions that have gone quiet."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Self, TypedDict

from queenmq.client.calls import PopRequest
from queenmq.client.errors import ClientClosed, ClientError
from queenmq.client.streams.batch import Place, Plan, plan_batch, plan_flush
from queenmq.client.streams.broker import CycleRefused, StreamCalls
from queenmq.client.streams.chain import Chain
from queenmq.client.streams.recent import RecentPlaces
from queenmq.client.streams.steps import Foreach, MessageFailed, Sink
from queenmq.clock import unix_ms, utc_now

if TYPE_CHECKING:
    from queenmq.client.client import Queen

logger = logging.getLogger(__name__)

_BATCH = 200
_PARTITIONS = 4
_WAIT_MS = 1_000
#: Before what a gate has denied is tried again, and before an error is.
_DENIED_S = 0.1
_FAILED_S = 1.0

ErrorHook = Callable[[Exception, dict[str, Any]], Any]


class RunKeywords(TypedDict, total=False):
    """Keyword arguments for running a stream."""

    #: Messages of one cycle, at most.
    batch_size: int
    #: Partitions of one pop, at most.
    max_partitions: int
    #: How long a pop waits for messages.
    max_wait_millis: int
    subscription_mode: str
    subscription_from: str
    #: Wipe the state that the query has, and take a new configuration.
    reset: bool
    #: In place of `streams.<query_id>`.
    consumer_group: str
    #: Is told each error and where it happened.
    on_error: ErrorHook
    #: Taken and not needed: the client has its own.
    bearer_token: str
    logger: Any


class Runner:
    """A running stream. `await runner.stop()`, or use it as `async with`."""

    def __init__(
        self,
        queen: Queen,
        source: str,
        chain: Chain,
        name: str,
        config_hash: str,
        how: RunKeywords,
    ) -> None:
        self._queen = queen
        self._source = source
        self._chain = chain
        self._name = name
        self._hash = config_hash
        self._how = how
        self._group = how.get("consumer_group") or f"streams.{name}"
        self._calls = StreamCalls(queen._transport, self._group)
        self._recent = RecentPlaces()
        self._stopping = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._stats: dict[str, Any] = dict.fromkeys(
            (
                "cyclesTotal", "flushCyclesTotal", "messagesTotal", "pushItemsTotal",
                "stateOpsTotal", "lateEventsTotal", "errorsTotal", "gateAllowsTotal",
                "gateDenialsTotal",
            ),
            0,
        )  # fmt: skip
        self._stats |= {"lastCycleAt": None, "lastFlushAt": None, "lastError": None}

    async def start(self) -> None:
        """Register the query and begin. Raises StreamRefused if it runs with another chain."""
        end = self._chain.end
        await self._calls.register(
            self._name,
            self._source,
            end.queue if isinstance(end, Sink) else None,
            self._hash,
            reset=bool(self._how.get("reset")),
        )
        # Closing the client stops it.
        self._queen._consumptions.add(self)
        self._tasks.append(asyncio.create_task(self._run(), name=f"stream-{self._name}"))
        window = self._chain.window
        if window is not None and self._chain.reducer is not None and window.idle_flush_ms > 0:
            flushing = self._flush_often(window.idle_flush_ms / 1000)
            self._tasks.append(asyncio.create_task(flushing, name=f"stream-flush-{self._name}"))

    async def stop(self) -> None:
        """Finish the batch in hand and stop."""
        self._stopping.set()
        try:
            await asyncio.gather(*self._tasks)
        finally:
            self._queen._consumptions.discard(self)

    async def wait(self) -> None:
        """Return when the stream has stopped."""
        await asyncio.gather(*self._tasks)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()

    def metrics(self) -> dict[str, Any]:
        """Return counts since the start."""
        return {**self._stats, "queryId": self._name, "serverQueryId": self._calls.query_id}

    async def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                messages = await self._pop()
            except ClientClosed:
                return
            except ClientError as error:
                self._report(error, phase="pop")
                await self._pause(_FAILED_S)
                continue
            groups: dict[str, list[Any]] = {}
            for message in messages:
                groups.setdefault(message.partition_id, []).append(message)
            await asyncio.gather(*(self._handle(group) for group in groups.values()))

    async def _pop(self) -> list[Any]:
        how = self._how
        request = PopRequest(
            queue=self._source,
            group=self._group,
            batch=how.get("batch_size") or _BATCH,
            partitions=how.get("max_partitions") or _PARTITIONS,
            wait=True,
            timeout_ms=how.get("max_wait_millis", _WAIT_MS),
            subscription_mode=how.get("subscription_mode"),
            subscription_from=how.get("subscription_from"),
        )
        return list(await self._queen._pop(request))

    async def _handle(self, messages: list[Any]) -> None:
        """Do the cycles of a batch of one partition; what is left of it goes back."""
        place = Place(messages[0].partition_id, messages[0].partition)
        left = messages
        try:
            async with self._recent.touch(place):
                left = await self._cycle(place, messages)
            if left:
                self._stats["gateDenialsTotal"] += len(left)
                await self._pause(_DENIED_S)
                await self._hand_back(left[0], "retry")
        except MessageFailed as failed:
            self._report(failed, phase="message", partition=place.id)
            await self._fail(place, messages, failed)
        except Exception as error:
            # Also a refused cycle: what refused it, like a full sink, may last.
            self._report(error, phase="cycle", partition=place.id)
            await self._pause(_FAILED_S)
            await self._hand_back(messages[0], "retry")

    async def _cycle(
        self, place: Place, messages: list[Any], *, keeps_lease: bool = False
    ) -> list[Any]:
        """Commit what can be; the messages that are left, because a gate has denied them."""
        state, version = await self._calls.read_state(place.id) if self._is_stateful else ({}, None)
        plan = await plan_batch(self._chain, place, messages, state, unix_ms())
        self._stats["lateEventsTotal"] += plan.late
        left = messages[plan.taken :]
        if plan.taken:
            await self._run_effects(plan)
            await self._calls.commit(
                place.id,
                plan,
                version,
                ack=messages[plan.taken - 1],
                keeps_lease=keeps_lease or bool(left),
            )
            self._count(plan, "cyclesTotal", "lastCycleAt")
            self._stats["messagesTotal"] += plan.taken
            if self._chain.gate is not None:
                self._stats["gateAllowsTotal"] += plan.taken
        return left

    @property
    def _is_stateful(self) -> bool:
        return self._chain.gate is not None or self._chain.reducer is not None

    async def _fail(self, place: Place, messages: list[Any], failed: MessageFailed) -> None:
        """Commit the messages before the failed one, and ack that one as failed."""
        try:
            before = messages[: failed.place]
            left = await self._cycle(place, before, keeps_lease=True) if before else []
            if left:
                await self._hand_back(left[0], "retry")
                return
        except MessageFailed as earlier:
            # A later step fails on an earlier message, so that one comes first.
            await self._fail(place, messages, earlier)
            return
        except Exception as error:
            self._report(error, phase="cycle", partition=place.id)
            await self._pause(_FAILED_S)
            await self._hand_back(messages[0], "retry")
            return
        await self._hand_back(messages[failed.place], "failed", error=str(failed))
        # Once it is a dead letter, the lease still covers the messages after it.
        for message in messages[failed.place + 1 : failed.place + 2]:
            await self._hand_back(message, "retry")

    async def _hand_back(self, message: Any, status: str, error: str | None = None) -> None:
        # A lease that is lost, or a server that is away, has the same effect a little later.
        with contextlib.suppress(ClientError):
            await self._queen.ack(message, status, group=self._group, error=error)

    async def _run_effects(self, plan: Plan) -> None:
        if isinstance(self._chain.end, Foreach):
            for value, context in plan.effects:
                await self._chain.end.call(value, context)

    async def _flush_often(self, pause_s: float) -> None:
        while not await self._pause(pause_s):
            for place in self._recent.find_idle(pause_s):
                async with self._recent.hold(place):
                    try:
                        await self._flush(place)
                    except CycleRefused:
                        # Another worker has the partition, or was faster.
                        pass
                    except ClientClosed:
                        return
                    except Exception as error:
                        self._report(error, phase="flush", partition=place.id)
            self._stats["lastFlushAt"] = _iso_now()

    async def _flush(self, place: Place) -> None:
        state, version = await self._calls.read_state(place.id)
        plan = await plan_flush(self._chain, place, state, unix_ms())
        if plan.ops:
            await self._run_effects(plan)
            await self._calls.commit(place.id, plan, version)
            self._count(plan, "flushCyclesTotal", "lastFlushAt")

    async def _pause(self, seconds: float) -> bool:
        """Wait; whether the stream is to stop."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        return self._stopping.is_set()

    def _count(self, plan: Plan, cycles: str, time: str) -> None:
        self._stats[cycles] += 1
        self._stats["stateOpsTotal"] += len(plan.ops)
        self._stats["pushItemsTotal"] += len(plan.pushes)
        self._stats[time] = _iso_now()

    def _report(self, error: Exception, **where: Any) -> None:
        self._stats["errorsTotal"] += 1
        self._stats["lastError"] = str(error)
        facts: Mapping[str, Any] = {"event": "stream_error", "stream": self._name, **where}
        logger.warning("stream %s: %s", self._name, error, extra=dict(facts))
        if (hook := self._how.get("on_error")) is not None:
            try:
                hook(error, where)
            except Exception:
                logger.exception("on_error of stream %s failed", self._name)


def _iso_now() -> str:
    return utc_now().isoformat(timespec="milliseconds").replace("+00:00", "Z")
