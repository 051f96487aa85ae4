"""The orders for a broker process from the one that starts it."""

from __future__ import annotations

import msgspec

from queenmq.settings import Origin, Settings


class Missing(msgspec.Struct, frozen=True):
    """The reason why the database cannot be reached: for operators, for callers, in one word."""

    text: str
    public: str
    reason: str


class BrokerOrders(msgspec.Struct, frozen=True, kw_only=True):
    """The database and how the start found it."""

    url: str
    settings: Settings
    #: Where settings come from that are not at their defaults.
    origins: dict[str, Origin] = {}
    #: Whether to start without the database: not with the embedded one, which runs or is broken.
    may_wait: bool = False
    #: Why the schema could not be brought up to date yet; None when it is.
    missing: Missing | None = None
    #: The database that other processes of this broker have found behind the URL.
    database_id: str | None = None
    #: Which of the broker's workers this is, and the memory in which all of them count.
    place: int = 0
    metrics_fd: int | None = None
