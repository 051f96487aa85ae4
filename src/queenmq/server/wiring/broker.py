"""The composition root: builds everything one worker process runs, and starts and stops it."""

from __future__ import annotations

import asyncio
import contextlib

from queenmq.engine.load.metrics import register_load
from queenmq.engine.maintenance import Maintenance
from queenmq.server.auth.wiring import make_access
from queenmq.server.metering.requests import RequestMeter
from queenmq.server.orders import BrokerOrders
from queenmq.server.stop_time import StopTime
from queenmq.server.wiring.acking import make_acking
from queenmq.server.wiring.application import Parts, make_application
from queenmq.server.wiring.ground import make_ground
from queenmq.server.wiring.health import make_health
from queenmq.server.wiring.hearing import declare_news
from queenmq.server.wiring.lifecycle import declare_services
from queenmq.server.wiring.load import make_load_manager
from queenmq.server.wiring.metering import make_metering
from queenmq.server.wiring.popping import make_popping
from queenmq.server.wiring.pushing import make_processor, make_pushing
from queenmq.storage.connection.wake_listener import WakeListener


class Broker:
    """Everything one worker process runs, from the pool of connections to the ASGI application."""

    def __init__(self, orders: BrokerOrders) -> None:
        settings = orders.settings
        self._ground = ground = make_ground(orders)
        self._popping = popping = make_popping(ground)
        self._pushing = pushing = make_pushing(ground)
        self._acking = acking = make_acking(ground, pushing)
        self._maintenance = Maintenance(ground.operations, news=ground.news)
        load = make_load_manager(ground, pushing=pushing, popping=popping, acking=acking)
        register_load(ground.registry, load)
        processor = make_processor(ground, pushing.operations, load)
        metering, self._spans = make_metering(
            ground,
            load,
            pushing=pushing,
            popping=popping,
            acking=acking,
            maintenance=self._maintenance,
        )
        wake = WakeListener(
            ground.messages,
            ground.database.connector.connect,
            interval_ms=settings.wake_interval_ms,
            is_listening=settings.wake_listen,
            news=ground.news,
        )
        access = make_access(settings, ground.database)
        self._lifecycle = declare_services(
            ground,
            pushing=pushing,
            processor=processor,
            wake=wake,
            load=load,
            metering=metering,
            maintenance=self._maintenance,
            access=access,
        )
        declare_news(
            ground,
            pushing=pushing,
            popping=popping,
            processor=processor,
            wake=wake,
            joining=self._lifecycle.joining,
        )
        self._health = make_health(
            ground, pushing, self._maintenance, report_services=self._lifecycle.report
        )
        #: What counts answers and connections.
        self.meter: RequestMeter = metering.meter
        self.app = make_application(
            Parts(
                ground=ground,
                pushing=pushing,
                popping=popping,
                acking=acking,
                maintenance=self._maintenance,
                load=load,
                metering=metering,
                access=access,
                health=self._health,
            )
        )

    @property
    def database_id(self) -> str | None:
        """Return which database this is, or None until that is known."""
        return self._ground.membership.database_id

    async def start(self) -> None:
        """Serve. Without the database, keep pushes on disk and refuse the rest until it is back."""
        await self._lifecycle.always.start()

    async def begin_stop(self, time: StopTime) -> None:
        """Answer parked polls, so that the server can close its connections."""
        self._health.is_stopping = True
        self._maintenance.stop()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(time.work_until_s):
                await self._popping.pop.drain()

    async def stop(self, time: StopTime) -> None:
        """Finish work in flight within a time limit, and disconnect."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(time.work_until_s):
                await self._pushing.push.drain()
                await self._acking.ack.drain()
                await self._acking.transactions.drain()
                await self._acking.cycles.drain()
                await self._popping.leases.drain()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(time.closed_until_s):
                await self._lifecycle.always.stop()
        # Nothing once the services have stopped. Otherwise it ends the calls that they left behind.
        self._ground.database.cut_off()
        await self._pushing.spool_files.close()
        if self._spans is not None:
            await time.close_in_thread(self._spans.close)
