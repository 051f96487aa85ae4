"""Queue administration: configure, delete, clear."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from queenmq import wire
from queenmq.auth.decision import check_queue
from queenmq.crypto.vault import Vault
from queenmq.engine.news import News
from queenmq.errors import NotFound
from queenmq.server.answers.responses import json_answer, read_request
from queenmq.server.auth.callers import identity_of
from queenmq.server.requests.checks import check_name, quote
from queenmq.server.requests.configuring import find_ignored
from queenmq.server.requests.places import names_partition, parse_place
from queenmq.server.requests.queries import parse_query
from queenmq.server.routing.spec import route
from queenmq.settings import Settings
from queenmq.storage.stores.admin import AdminStore

_QUEUE = "/api/v1/resources/queues/{queue:name}"


class QueueRoutes:
    """Administration of queues. Publishes which queue's cached facts are stale."""

    def __init__(
        self,
        store: AdminStore,
        settings: Settings,
        vault: Vault,
        *,
        news: News,
    ) -> None:
        self._store = store
        self._vault = vault
        self._settings = settings
        self._news = news

    @route("POST", "/api/v1/configure", wire.QueueConfigured, request=wire.ConfigureRequest)
    async def configure(self, request: Request) -> Response:
        """Create a queue or replace all its options; echoes them.

        Names that mean nothing are ignored, as clients expect, and listed.
        """
        body = await read_request(request, wire.ConfigureRequest)
        ignored = find_ignored(await request.body())
        name = check_name("queue", body.queue, length_max=self._settings.max_name_length)
        check_queue(identity_of(request), name)
        length_max = self._settings.max_name_length
        namespace, task = body.namespace or "", body.task or ""
        for field, value in (("namespace", namespace), ("task", task)):
            if value:
                check_name(field, value, length_max=length_max)
        options = body.options or wire.QueueOptions()
        if options.encryption_enabled:
            self._vault.check(name)
        queue_id, partition_id = await self._store.configure_queue(
            name, namespace, task, dict(options)
        )
        self._news.queue_changed(name)
        return json_answer(
            wire.QueueConfigured(
                configured=True,
                queue_id=str(queue_id),
                partition_id=str(partition_id),
                queue=name,
                namespace=namespace,
                task=task,
                options=options,
                ignored=ignored,
            )
        )

    @route("DELETE", _QUEUE, wire.QueueDeleted)
    async def delete(self, request: Request) -> Response:
        """Delete a queue. Succeeds even if there is none."""
        name = request.path_params["queue"]
        check_name("queue", name, length_max=self._settings.max_name_length)
        existed = await self._store.delete_queue(name)
        self._news.queue_changed(name)
        return json_answer(wire.QueueDeleted(deleted=True, queue=name, existed=existed))

    @route(
        "DELETE",
        _QUEUE + "/partitions/{partition:name}",
        wire.PartitionDeleted,
        when=names_partition,
    )
    async def delete_partition(self, request: Request) -> Response:
        """Remove a partition of a queue."""
        queue, partition = parse_place(request, length_max=self._settings.max_name_length)
        existed = await self._store.delete_partition(queue, partition)
        self._news.queue_changed(queue)
        if not existed:
            raise NotFound(
                f"partition {quote(partition)} of queue {quote(queue)} does not exist;"
                " check its name"
            )
        return json_answer(wire.PartitionDeleted(deleted=True, queue=queue, partition=partition))

    @route(
        "DELETE", "/api/v1/queues/{queue:name}/clear", wire.QueueCleared, query={"partition": str}
    )
    async def clear(self, request: Request) -> Response:
        """Drop all messages of a queue or of one partition."""
        name = request.path_params["queue"]
        partition = parse_query(request.scope["query_string"]).get("partition")
        check_name("queue", name, length_max=self._settings.max_name_length)
        if partition is not None:
            check_name("partition", partition, length_max=self._settings.max_name_length)
        removed = await self._store.clear_queue(name, partition)
        if removed is None:
            what = f"partition {quote(partition)} of queue" if partition is not None else "queue"
            raise NotFound(f"{what} {quote(name)} does not exist; check its name")
        return json_answer(
            wire.QueueCleared(
                success=True, queue=name, partition=partition, messages_deleted=removed
            )
        )
