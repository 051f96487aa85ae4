"""Health of a broker, and the few numbers that clients and dashboards read."""

from __future__ import annotations

from msgspec import field

from queenmq.wire.shape import Answer, Number


class Live(Answer):
    """`live`, or whether the broker is `ready`."""

    status: str


class CapabilityState(Answer):
    """The state of one kind of request."""

    status: str
    reason: str | None


class SpoolState(Answer):
    """Push requests on the broker's disk."""

    pending: int
    pending_bytes: int
    set_aside: int


class SharedState(Answer):
    """A flag for shared knowledge between brokers. They share none."""

    enabled: bool = False


class WorkerState(Answer, rename=None):
    """The process that answers, as older clients look for it."""

    worker_id: int
    status: str


class Health(Answer, rename=None, omit_defaults=True, kw_only=True):
    """The capabilities of a broker, and its problems."""

    status: str
    database: str
    capabilities: dict[str, CapabilityState]
    problems: list[str]
    spool: SpoolState
    server: str
    worker_id: int
    version: str
    shared_state: SharedState
    queen: WorkerState
    error: str | None = None
    #: Background services by name: `running`, `failing`, `dead`, or `stopped` without the database.
    services: dict[str, str] = field(default_factory=dict)


class Rate(Answer):
    """A count since the start, and its rate per second."""

    total: int
    rate: Number


class PoolUse(Answer):
    """Connections to the database."""

    pool_size: int
    idle_connections: int
    waiting_requests: int


class Memory(Answer):
    """Resident memory in bytes. The others belong to a runtime that is not ours."""

    rss: int
    heap_total: int = 0
    heap_used: int = 0
    external: int = 0
    array_buffers: int = 0


class ProcessorTime(Answer):
    """Microseconds."""

    user: int
    system: int


class Metrics(Answer):
    """The work and the resources of this process."""

    uptime: Number
    requests: Rate
    messages: Rate
    database: PoolUse
    memory: Memory
    cpu: ProcessorTime
