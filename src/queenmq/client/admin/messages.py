"""Calls about single messages and dead letters."""

from __future__ import annotations

from typing import Any, Unpack

from queenmq import wire
from queenmq.client.admin.caller import Caller
from queenmq.client.admin.queries import DeadLetterErrorQuery, DeadLetterFilter, MessageQuery
from queenmq.client.calls import quote_name
from queenmq.client.message import DeadLetters


def _message(partition_id: str, transaction_id: str, action: str = "") -> str:
    return f"/api/v1/messages/{quote_name(partition_id)}/{quote_name(transaction_id)}{action}"


class MessageCalls(Caller):
    """Lists, shows, moves and removes messages and dead letters."""

    async def list_messages(self, **query: Unpack[MessageQuery]) -> wire.MessageList:
        """List messages without their payloads, newest first.

        Args:
            query: `queue`, `partition`, `ns`, `task`, `status`, `from_`, `to`,
                `transactionId`, `text` in the payload, `limit`, `offset`.
        """
        return await self._get(wire.MessageList, "/api/v1/messages", query)

    async def get_message(self, partition_id: str, transaction_id: str) -> wire.MessageDetail:
        """Show a message with its payload, and which groups have passed it.

        Args:
            partition_id: The message's partition.
            transaction_id: The message's name there.
        """
        return await self._get(wire.MessageDetail, _message(partition_id, transaction_id))

    async def delete_message(self, partition_id: str, transaction_id: str) -> wire.MessageDeleted:
        """Remove a message with its dead letters and traces.

        Args:
            partition_id: The message's partition.
            transaction_id: The message's name there.
        """
        return await self._delete(wire.MessageDeleted, _message(partition_id, transaction_id))

    async def retry_message(self, partition_id: str, transaction_id: str) -> wire.MessageRetried:
        """Push a dead message again, at the end of its partition.

        Args:
            partition_id: The message's partition.
            transaction_id: The message's name there.
        """
        path = _message(partition_id, transaction_id, "/retry")
        return await self._post(wire.MessageRetried, path, {})

    async def move_message_to_dlq(
        self, partition_id: str, transaction_id: str, error: str | None = None
    ) -> wire.MessageDeadLettered:
        """Move a message to the dead letters of all groups that have not passed it.

        Args:
            partition_id: The message's partition.
            transaction_id: The message's name there.
            error: The reason, kept with the dead letters.
        """
        path = _message(partition_id, transaction_id, "/dlq")
        return await self._post(wire.MessageDeadLettered, path, {"error": error} if error else {})

    async def list_dead_letters(self, **query: Unpack[DeadLetterFilter]) -> DeadLetters:
        """List dead letters, latest failure first.

        Args:
            query: `queue`, `consumerGroup`, `partition`, `from_`, `to`, `limit`, `offset`.
        """
        return await self._get(DeadLetters, "/api/v1/dlq", query)

    async def get_dead_letter_errors(
        self, **query: Unpack[DeadLetterErrorQuery]
    ) -> wire.DeadLetterErrors:
        """Count dead letters by queue, group and error, the most frequent first.

        Args:
            query: `queue`, `consumerGroup`.
        """
        return await self._get(wire.DeadLetterErrors, "/api/v1/dlq/errors", query)

    async def retry_dead_letters(
        self,
        queue: str | None = None,
        *,
        group: str | None = None,
        partition: str | None = None,
        older_than_seconds: int | None = None,
        error: str | None = None,
        limit: int | None = None,
    ) -> wire.DeadLettersRetried:
        """Push dead letters again. Repeat while `remaining` is true and `pushed` is not 0.

        Args:
            queue: Only dead letters of this queue.
            group: Only dead letters of this consumer group.
            partition: Only dead letters of this partition.
            older_than_seconds: Only dead letters older than this.
            error: Only dead letters whose error begins with this.
            limit: At most this many.
        """
        body = _dead_letter_query(queue, group, partition, older_than_seconds, error, limit)
        return await self._post(wire.DeadLettersRetried, "/api/v1/dlq/retry", body)

    async def purge_dead_letters(
        self,
        queue: str | None = None,
        *,
        group: str | None = None,
        partition: str | None = None,
        older_than_seconds: int | None = None,
        error: str | None = None,
        limit: int | None = None,
    ) -> wire.DeadLettersPurged:
        """Delete dead letters. Repeat while `remaining` is true.

        Args:
            queue: Only dead letters of this queue.
            group: Only dead letters of this consumer group.
            partition: Only dead letters of this partition.
            older_than_seconds: Only dead letters older than this.
            error: Only dead letters whose error begins with this.
            limit: At most this many.
        """
        query = _dead_letter_query(queue, group, partition, older_than_seconds, error, limit)
        return await self._delete(wire.DeadLettersPurged, "/api/v1/dlq", query)


def _dead_letter_query(
    queue: str | None,
    group: str | None,
    partition: str | None,
    older_than_seconds: int | None,
    error: str | None,
    limit: int | None,
) -> dict[str, Any]:
    given = {
        "queue": queue,
        "consumerGroup": group,
        "partition": partition,
        "olderThanSeconds": older_than_seconds,
        "error": error,
        "limit": limit,
    }
    return {name: value for name, value in given.items() if value is not None}
