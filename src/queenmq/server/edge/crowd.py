"""Bounds all connections of a process: their number, their time and their memory.

A sweep checks every connection twice a second, so that a request needs no timer. That is precise
enough for limits of seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
from collections import Counter
from dataclasses import dataclass
from typing import Protocol

from queenmq.server.edge.machine import State
from queenmq.server.edge.refusal import Refused

#: Between two sweeps.
_SWEEP_S = 0.5
#: How long a refused client has to read the reason.
_CLOSING_S = 2.0
#: Bodies may pause this long before their pace counts.
_BODY_GRACE_S = 10.0
#: The share of idle connections to close when room is needed, so that one scan serves many.
_EVICTED_SHARE = 100
#: Refused or evicted connections that may still be open.
_LEAVING_MAX = 256
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CrowdLimits:
    """The limits of connections. The settings page explains each."""

    connections_max: int
    per_address_max: int
    bodies_bytes_max: int
    keep_alive_s: float
    head_s: float
    body_bytes_per_s: int
    unread_s: float


class Member(Protocol):
    """The interface of a connection for the crowd."""

    address: str
    state: State
    #: When it entered its state, by the clock of the crowd.
    since_s: float
    #: When it stopped reading its answers; None while it reads.
    unread_since_s: float | None
    #: Whether it has sent no request yet.
    is_new: bool

    #: How much of a body has arrived.
    @property
    def body_bytes(self) -> int: ...

    #: Unread bytes of its answers, now and when they last decreased.
    @property
    def unsent_bytes(self) -> int: ...

    unsent_seen: int
    read_at_s: float

    #: Whether it is known to have left, although no more is read from it.
    @property
    def has_hung_up(self) -> bool: ...

    def refuse(self, error: Refused) -> None: ...
    def dismiss(self) -> None: ...
    def abort(self) -> None: ...


class Crowd:
    """The connections of one process. Belongs to one event loop."""

    def __init__(self, limits: CrowdLimits) -> None:
        self._limits = limits
        self._members: set[Member] = set()
        #: Refused or evicted connections with an open socket: watched, but not counted.
        self._leaving: set[Member] = set()
        self._by_address: Counter[str] = Counter()
        self._sweeper: asyncio.Task[None] | None = None
        self._emptied = asyncio.Event()
        self._emptied.set()
        #: Bytes of bodies in memory, of arriving and current requests.
        self.body_bytes = 0
        #: Bytes received and sent by all connections so far.
        self.received_bytes = 0
        self.sent_bytes = 0
        self.now_s = 0.0
        self.is_stopping = False

    def __len__(self) -> int:
        return len(self._members)

    def start(self) -> None:
        """Start the sweeps."""
        self.now_s = asyncio.get_running_loop().time()
        self._sweeper = asyncio.create_task(self._watch(), name="edge-sweep")

    async def stop(self, timeout_s: float) -> None:
        """Wait for current requests within the time, then end all connections."""
        self.is_stopping = True
        for member in list(self._members):
            member.dismiss()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._emptied.wait()
        for member in (*self._members, *self._leaving):
            member.abort()
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.gather(self._sweeper, return_exceptions=True)

    def add(self, member: Member) -> None:
        """Admit a new connection. Raises Refused if there is no room for it."""
        limits = self._limits
        if len(self._members) >= limits.connections_max and not self._evict(None):
            raise Refused(
                503,
                f"The server has {limits.connections_max} connections, all in use. Retry.",
                retry_after_s=1,
                bound="connections_max",
            )
        if self._by_address[member.address] >= limits.per_address_max and not self._evict(
            member.address
        ):
            raise Refused(
                503,
                f"This address has {limits.per_address_max} connections, all in use."
                " Close some and retry.",
                retry_after_s=1,
                bound="connections_per_address_max",
            )
        self._members.add(member)
        self._emptied.clear()
        self._by_address[member.address] += 1

    def discard(self, member: Member) -> None:
        """Forget a connection that is gone."""
        self._leaving.discard(member)
        self._uncount(member)

    def see_off(self, member: Member) -> None:
        """Watch a connection that is ending and no longer counts."""
        self._uncount(member)
        if len(self._leaving) >= _LEAVING_MAX:
            member.abort()
        self._leaving.add(member)

    def _uncount(self, member: Member) -> None:
        if member in self._members:
            self._members.discard(member)
            self._by_address[member.address] -= 1
            if not self._by_address[member.address]:
                del self._by_address[member.address]
            if not self._members:
                self._emptied.set()

    def check_room(self, length: int) -> None:
        """Raise Refused unless there is room for a body of this length."""
        if self.body_bytes + length > self._limits.bodies_bytes_max:
            raise Refused(
                503,
                f"Bodies of {self.body_bytes} bytes are in memory, and this one does not fit"
                f" into {self._limits.bodies_bytes_max}. Retry.",
                retry_after_s=1,
                bound="max_bodies_bytes",
            )

    def _evict(self, address: str | None) -> bool:
        """Close the connections that have been idle longest, of this address if one is given.

        Return whether there were any.
        """
        idle = [
            member
            for member in self._members
            if member.state is State.IDLE and address in (None, member.address)
        ]
        idle.sort(key=lambda member: member.since_s)
        evicted = idle[: len(self._members) // _EVICTED_SHARE + 1]
        for member in evicted:
            member.dismiss()
            self.see_off(member)
        return bool(evicted)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_S)
            self.now_s = asyncio.get_running_loop().time()
            for member in (*self._members, *self._leaving):
                try:
                    self._judge(member)
                except Exception:
                    logger.exception(
                        "Handling a connection failed unexpectedly.", extra={"event": "defect"}
                    )
                    member.abort()

    def _judge(self, member: Member) -> None:
        """End a connection that exceeds the time limit of its state."""
        limits, now_s = self._limits, self.now_s
        took_s = now_s - member.since_s
        state = member.state
        unsent = member.unsent_bytes
        if member.unread_since_s is not None or (state is State.CLOSING and unsent):
            if unsent != member.unsent_seen:
                member.unsent_seen, member.read_at_s = unsent, now_s
            elif now_s - max(member.read_at_s, member.since_s) > limits.unread_s:
                member.abort()
            return
        if state in (State.WORKING, State.DECODING):
            if member.has_hung_up:
                member.abort()
            return
        if state is State.IDLE:
            if took_s > (limits.head_s if member.is_new else limits.keep_alive_s):
                member.dismiss()
        elif state is State.HEAD:
            if took_s > limits.head_s:
                member.refuse(
                    Refused(408, f"No complete head within {limits.head_s:g} s. Send it faster.")
                )
        elif state is State.BODY:
            wanted = (took_s - _BODY_GRACE_S) * limits.body_bytes_per_s
            if member.body_bytes < wanted:
                member.refuse(
                    Refused(
                        408,
                        f"The body came slower than {limits.body_bytes_per_s} bytes a second."
                        " Send it faster or in smaller requests.",
                    )
                )
        elif took_s > _CLOSING_S:
            member.abort()


def connections_max(wanted: int, *, reserved: int) -> int:
    """Return the bound of connections: as configured, but leave descriptors for the rest."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return wanted if soft == resource.RLIM_INFINITY else max(1, min(wanted, soft - reserved))
