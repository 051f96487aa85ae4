"""RabbitMQ: one quorum queue, publisher confirms, manual acks."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from benchmarks.peers.peer import Received, free_port, need_module, need_program, running_server

NAME = "RabbitMQ quorum queue"
PROMISES = (
    "replicated when it has several nodes (here one); no partitions, groups or duplicate check"
)

_QUEUE = "bench"
_PATH = "/usr/lib/rabbitmq/bin:/usr/local/lib/rabbitmq/bin"


class RabbitMq:
    """One channel per lane; a consumer's messages are pushed to it and gather here."""

    def __init__(self, server_pid: int, channels: Sequence[object]) -> None:
        self.server_pid = server_pid
        self._channels = channels
        self._queues: dict[int, object] = {}
        self._arrived: dict[int, asyncio.Queue[Received]] = {}

    async def push(self, lane: int, bodies: Sequence[str]) -> None:
        import aio_pika

        exchange = self._channels[lane].default_exchange
        mode = aio_pika.DeliveryMode.PERSISTENT
        await asyncio.gather(
            *(
                exchange.publish(aio_pika.Message(body.encode(), delivery_mode=mode), _QUEUE)
                for body in bodies
            )
        )

    async def receive(self, lane: int, count: int) -> list[Received]:
        if lane not in self._arrived:
            await self._consume(lane)
        arrived = self._arrived[lane]
        try:
            async with asyncio.timeout(0.2):
                received = [await arrived.get()]
        except TimeoutError:
            return []
        while len(received) < count and not arrived.empty():
            received.append(arrived.get_nowait())
        return received

    async def _consume(self, lane: int) -> None:
        arrived = self._arrived[lane] = asyncio.Queue()
        channel = self._channels[lane]
        await channel.set_qos(prefetch_count=200)
        queue = await channel.get_queue(_QUEUE)

        async def note(message: object) -> None:
            arrived.put_nowait(Received(message, message.body.decode()))

        await queue.consume(note)

    async def ack(self, lane: int, received: Sequence[Received]) -> None:
        # In order on one channel: the last one settles all before it.
        await received[-1].handle.ack(multiple=True)


@contextlib.asynccontextmanager
async def open_peer(home: Path, lanes: int) -> AsyncIterator[RabbitMq]:
    need_module("aio_pika")
    import aio_pika

    program = need_program("rabbitmq-server", "rabbitmq-server", path=_PATH)
    port, names_port = free_port(), free_port()
    plugins = home / "plugins"
    plugins.write_text("[].")
    environ = {
        **os.environ,
        "HOME": str(home),
        "ERL_EPMD_PORT": str(names_port),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODENAME": "bench@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(free_port()),
        "RABBITMQ_MNESIA_BASE": str(home / "data"),
        "RABBITMQ_LOG_BASE": str(home / "log"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(plugins),
        "RABBITMQ_CONF_ENV_FILE": str(home / "none"),
    }
    # Its own name server, so that none stays behind.
    names = [need_program("epmd", "rabbitmq-server"), "-port", str(names_port)]
    async with (
        running_server(names, port=names_port, home=home, environ=environ),
        running_server([program], port=port, home=home, environ=environ) as pid,
        contextlib.AsyncExitStack() as stack,
    ):
        channels = []
        for _ in range(lanes):
            connection = await aio_pika.connect(f"amqp://guest:guest@127.0.0.1:{port}/")
            stack.push_async_callback(connection.close)
            channels.append(await connection.channel(publisher_confirms=True))
        await channels[0].declare_queue(_QUEUE, durable=True, arguments={"x-queue-type": "quorum"})
        yield RabbitMq(pid, channels)
