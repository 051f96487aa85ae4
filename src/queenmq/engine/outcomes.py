"""Outcomes of items and candidates as enums. `storage/` decodes them from what SQL answers."""

from __future__ import annotations

from enum import Enum, StrEnum


class ItemOutcome(Enum):
    """The outcome of one pushed item."""

    STORED = "stored"
    #: Its partition has stored the transaction id before.
    DUPLICATE = "duplicate"
    #: The queue has reached its maxSize.
    FULL = "full"
    #: A queued push, because earlier pushes of the partition are queued.
    QUEUED_IN_ORDER = "queued in order"
    #: A queued push, because the broker is busy.
    QUEUED_FOR_LOAD = "queued for load"
    #: On the broker's disk, because the database is away.
    SPOOLED = "spooled"
    #: On the broker's disk, because of maintenance.
    SPOOLED_FOR_MAINTENANCE = "spooled for maintenance"


class HoldReason(Enum):
    """The reason why the messages of a partition must wait."""

    LEASE = "lease"
    #: A retry delay, a window buffer or delayed processing.
    TIME = "time"
    #: The head of the partition is a message that no consumer can pass.
    BLOCKED = "blocked"


class PopOutcome(StrEnum):
    """The outcome of one partition that a pop tried. The values are those of the SQL function."""

    #: Leased, and its messages are in the answer.
    GRANTED = "granted"
    #: Leased, and a separate call fetches its messages.
    LEASED = "leased"
    #: Leased by another consumer.
    HELD = "held"
    #: The first message waits for its retry delay.
    RETRY = "retry"
    WINDOW = "window"
    DELAYED = "delayed"
    BLOCKED = "blocked"
    #: The head became a dead letter. Try the partition again.
    AGAIN = "again"
    #: The call had enough without it.
    SPARE = "spare"
    NONE = "none"
    #: Another session had the rows locked.
    BUSY = "busy"
