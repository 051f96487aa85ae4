"""The contract of everything that works in the background of a broker.

A service starts, works until it is stopped, and reports its health. `start` and `stop` may be
called twice, `stop` before `start`, and `start` again after `stop`. `server/wiring/lifecycle.py`
declares the order of all services.
"""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

logger = logging.getLogger(__name__)

Loop = Callable[[], Coroutine[Any, Any, None]]


class Health(enum.Enum):
    """The health of a service, which waits or retries while the database has a fault."""

    #: Not started, or stopped.
    STOPPED = "stopped"
    RUNNING = "running"
    #: Its last pass met a defect. It goes on, and tries again.
    FAILING = "failing"
    #: It ended although no one stopped it, so its work is not done.
    DEAD = "dead"


class Service(Protocol):
    """Work in the background."""

    @property
    def name(self) -> str:
        """Return the name under which operators see it."""

    async def start(self) -> None:
        """Begin to work. Does nothing for a service that works already."""

    async def stop(self) -> None:
        """End the work and wait for its end. Does nothing for a service that does not work."""

    def health(self) -> Health:
        """Return its current health without waiting."""


class LoopService:
    """A service that consists of tasks which end only when they are stopped.

    Subclasses define `_run`, or `_loops` if they have several. They set `_is_failing` after a pass
    that met a defect, and unset it after one that did not.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._is_failing = False
        self.__tasks: dict[str, asyncio.Task[None]] = {}

    async def start(self) -> None:
        for name, loop in self._loops().items():
            if name not in self.__tasks or self.__tasks[name].done():
                task = asyncio.create_task(loop(), name=name)
                task.add_done_callback(self._note_end)
                self.__tasks[name] = task

    async def stop(self) -> None:
        tasks = list(self.__tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.__tasks.clear()
        self._is_failing = False

    def health(self) -> Health:
        if not self.__tasks:
            return Health.STOPPED
        if any(task.done() for task in self.__tasks.values()):
            return Health.DEAD
        return Health.FAILING if self._is_failing else Health.RUNNING

    def _loops(self) -> Mapping[str, Loop]:
        """Return the loops by the names of their tasks."""
        return {self.name: self._run}

    async def _run(self) -> None:
        """Work until cancelled."""
        raise NotImplementedError

    def _note_end(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            logger.error(
                "The service %s has ended unexpectedly. Restart the broker.",
                self.name,
                exc_info=task.exception(),
                extra={"event": "service_died", "service": self.name},
            )


class ServiceStatus(NamedTuple):
    """One service in a report."""

    name: str
    health: Health


class ServiceGroup:
    """Services that start in the order in which they are listed, and stop in the reverse order.

    It is a service itself, so that a group can contain another group.
    """

    def __init__(self, name: str, services: Iterable[Service]) -> None:
        self.name = name
        #: In the order of their start.
        self.services: Sequence[Service] = tuple(services)

    async def start(self) -> None:
        for service in self.services:
            await service.start()

    async def stop(self) -> None:
        for service in reversed(self.services):
            try:
                await service.stop()
            except Exception:
                # Stop the others anyway.
                logger.exception(
                    "The service %s failed unexpectedly while it stopped.",
                    service.name,
                    extra={"event": "service_broke", "service": service.name},
                )

    def health(self) -> Health:
        """Return the worst that any of the services reports."""
        found = [one.health for one in self.report()]
        worst = (Health.DEAD, Health.FAILING, Health.RUNNING)
        return next((health for health in worst if health in found), Health.STOPPED)

    def report(self) -> list[ServiceStatus]:
        """Return every single service, in start order."""
        found: list[ServiceStatus] = []
        for service in self.services:
            if isinstance(service, ServiceGroup):
                found += service.report()
            else:
                found.append(ServiceStatus(service.name, service.health()))
        return found
