"""The state that all connections of a process share."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field

from queenmq.server.edge.crowd import Crowd
from queenmq.server.edge.exchange import Exchange
from queenmq.server.edge.head import HeadReader
from queenmq.server.edge.refusal import Refused

#: Few: they take turns with the event loop.
_THREADS = 2


@dataclass(frozen=True, slots=True)
class Edge:
    """The parts of the edge that exist once per process."""

    crowd: Crowd
    reader: HeadReader
    #: Gets every request.
    app: Callable[[Exchange], None]
    #: Answers a request whose handler raised an error.
    on_error: Callable[[Exchange, BaseException], None]
    #: Answers below this size are not compressed.
    gzip_bytes_min: int
    #: The scheme of requests: http or https.
    scheme: str = "http"
    #: Told of every answer and its status, and of every refusal.
    on_answer: Callable[[Exchange, int], None] = lambda _exchange, _status: None
    on_refusal: Callable[[Refused], None] = lambda _error: None
    #: Threads that compress and decompress large bodies.
    threads: Executor = field(
        default_factory=lambda: ThreadPoolExecutor(_THREADS, thread_name_prefix="edge")
    )
