"""The spool for the event loop: nothing here blocks, because two threads do the disk work.

Appends are committed in groups. While one group is being written and synced, the appends that
arrive wait, and then go to disk together: one write and one sync for all of them. A lone append
does not wait for others.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

from queenmq.errors import RequestTooLarge, SpoolFailed, SpoolFull
from queenmq.storage.spool.aside import ENTRY_BYTES_EXTRA, AsideEntry
from queenmq.storage.spool.aside_retry import AsideRetry, Retried
from queenmq.storage.spool.drain import Drain
from queenmq.storage.spool.files import SpoolFiles
from queenmq.storage.spool.framing import BODY_BYTES_MAX
from queenmq.storage.spool.position import Phase, Place, Position, SpoolBatch, SpoolStats

Value = TypeVar("Value")

#: Bytes. Segments that are drained are deleted whole, so this is also what a drained spool keeps.
SEGMENT_BYTES = 16 * 1024 * 1024
#: Bytes of bodies in one group: bounds the memory of a group and the wait for the next one.
GROUP_BYTES_MAX = 4 * 1024 * 1024


class Spool:
    """A spool in a directory, shared with other processes that open it too.

    Everything but the constructor needs `open`, and nothing works after `close`.
    """

    def __init__(self, path: Path, *, bytes_max: int, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._path = path
        self._bytes_max = bytes_max
        self._segment_bytes = segment_bytes
        self._group_bytes_max = min(GROUP_BYTES_MAX, segment_bytes)
        self._waiting: deque[tuple[bytes, asyncio.Future[None]]] = deque()
        self._committer: asyncio.Task[None] | None = None
        self._is_open = False

    async def open(self) -> None:
        """Open the directory, making it if needed, and put a spool left by a crash in order."""
        # Appends and draining have a thread each: a slow read must not hold up a push.
        self._append_thread = ThreadPoolExecutor(1, thread_name_prefix="spool-append")
        self._drain_thread = ThreadPoolExecutor(1, thread_name_prefix="spool-drain")
        try:
            self._files = await self._in_drain_thread(
                partial(
                    SpoolFiles,
                    self._path,
                    bytes_max=self._bytes_max,
                    segment_bytes=self._segment_bytes,
                )
            )
        except BaseException:
            self._append_thread.shutdown()
            self._drain_thread.shutdown()
            raise
        self._drain = Drain(self._files)
        self._is_open = True

    async def close(self) -> None:
        """Write all appended records, then release files and locks. Closing twice is fine."""
        if self._is_open:
            self._is_open = False
            # Continues when the caller is cancelled. Otherwise the locks would be held forever.
            await asyncio.shield(asyncio.create_task(self._close()))

    async def _close(self) -> None:
        if self._committer is not None:
            await asyncio.wait([self._committer])
        await self._in_drain_thread(self._append_thread.shutdown)
        await self._in_drain_thread(self._files.close)
        self._drain_thread.shutdown()

    # Appending.

    async def append(self, body: bytes) -> None:
        """Append a body. Returns when it is on disk, behind everything appended before.

        Raises SpoolFull or SpoolFailed. If the caller stops waiting, the body may or may not be
        written.
        """
        if len(body) > BODY_BYTES_MAX - ENTRY_BYTES_EXTRA:
            raise RequestTooLarge(
                f"a request of {len(body)} bytes is too large for the spool; "
                f"it takes up to {BODY_BYTES_MAX - ENTRY_BYTES_EXTRA}"
            )
        if not self._is_open:
            raise SpoolFailed(f"spool {self._path} is closed")
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((body, done))
        if self._committer is None:
            self._committer = asyncio.create_task(self._commit())
        await done

    async def _commit(self) -> None:
        """Write groups until no append waits."""
        try:
            while self._waiting:
                await self._commit_group(self._next_group())
        finally:
            self._committer = None

    def _next_group(self) -> list[tuple[bytes, asyncio.Future[None]]]:
        group: list[tuple[bytes, asyncio.Future[None]]] = []
        total = 0
        while self._waiting:
            body, done = self._waiting[0]
            total += len(body)
            if group and total > self._group_bytes_max:
                break
            self._waiting.popleft()
            if not done.done():
                group.append((body, done))
        return group

    async def _commit_group(self, group: list[tuple[bytes, asyncio.Future[None]]]) -> None:
        bodies = [body for body, _ in group]
        answers: Sequence[SpoolFull | SpoolFailed | None]
        loop = asyncio.get_running_loop()
        try:
            answers = await loop.run_in_executor(self._append_thread, self._files.append, bodies)
        except Exception as error:
            answers = [SpoolFailed(str(error)) for _ in group]
        for (_, done), answer in zip(group, answers, strict=True):
            if done.done():
                continue
            if answer is None:
                done.set_result(None)
            else:
                done.set_exception(answer)

    # The gate, read on every push.

    @property
    def pending(self) -> int:
        """Return how many records are not drained. 0 means that nothing durable is undrained."""
        return self._files.state.pending

    @property
    def pending_bytes(self) -> int:
        return self._files.state.load().pending_bytes

    @property
    def phase(self) -> Phase:
        """Return the phase that the draining process announced last."""
        return self._files.state.phase

    def stats(self) -> SpoolStats:
        """Return counters of one moment."""
        state = self._files.state.load()
        return SpoolStats(
            pending_records=state.pending,
            pending_bytes=state.pending_bytes,
            aside_records=state.aside_records,
            aside_bytes=state.aside_bytes,
            is_stuck=state.phase is Phase.STUCK and state.pending > 0,
        )

    # Draining.

    async def try_lead(self) -> bool:
        """Become the one process that drains, unless another is. Ends a phase of closing."""
        return await self._in_drain_thread(self._drain.try_lead)

    async def release_lead(self) -> None:
        await self._in_drain_thread(self._drain.release_lead)

    async def read(self, *, records_max: int, bytes_max: int) -> SpoolBatch:
        """Return records from the cursor on, at least one if there is one."""
        return await self._in_drain_thread(
            partial(self._drain.read, records_max=records_max, bytes_max=bytes_max)
        )

    async def advance(self, to: SpoolBatch | Position) -> None:
        """Make draining of a batch, or of its part up to a position, durable."""
        position = to.end if isinstance(to, SpoolBatch) else to
        await self._in_drain_thread(partial(self._drain.advance, position))

    async def set_phase(self, phase: Phase) -> None:
        await self._in_drain_thread(partial(self._drain.set_phase, phase))

    async def set_aside(self, body: bytes, reason: str) -> None:
        """Keep a record that cannot be pushed, durably. Advance past it afterwards."""
        await self._in_drain_thread(partial(self._files.keep_aside, body, reason))

    # What was set aside.

    async def list_aside(self, *, limit: int, offset: int) -> list[tuple[Place, AsideEntry]]:
        """Return a page of records set aside, oldest first, each with its place."""
        return await self._in_drain_thread(
            partial(self._files.list_aside, limit=limit, offset=offset)
        )

    async def retry_aside(self, is_usable: Callable[[bytes], bool]) -> Retried:
        """Put usable records that were set aside behind everything else. Raises Conflict."""
        retry = AsideRetry(self._files, is_usable)
        retried = unreadable = 0
        with retry.retry_alone():
            for number in self._files.aside.numbers():
                # One at a time, because draining uses the same thread.
                one = await self._in_drain_thread(partial(retry.run_segment, number))
                retried, unreadable = retried + one.retried, unreadable + one.unreadable
                if one.stopped_by is not None:
                    return Retried(retried, unreadable, one.stopped_by)
        return Retried(retried, unreadable, None)

    async def _in_drain_thread(self, call: Callable[[], Value]) -> Value:
        return await asyncio.get_running_loop().run_in_executor(self._drain_thread, call)
