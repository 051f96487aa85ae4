"""Counts answers by route and status, and how long they took."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from queenmq.clock import now_ms
from queenmq.errors import Overloaded, QueenError, SpoolFailed, StorageUnavailable
from queenmq.metrics.registry import Registry
from queenmq.metrics.series import Counter, Histogram
from queenmq.server.metering.refusals import EDGE_BOUNDS

#: Routes whose answers are timed apart from all others.
OPERATIONS = {
    "/api/v1/push": "push",
    "/api/v1/push/once": "push",
    "/api/v1/pop": "pop",
    "/api/v1/ack": "ack",
    "/api/v1/ack/batch": "ack",
    "/api/v1/transaction": "transaction",
    "/api/v1/lease/{lease_id:name}/extend": "extend",
}
#: First digits of statuses.
_CLASSES = range(1, 6)
#: The route of requests that no route takes.
UNKNOWN = "unknown"


class Answered(Protocol):
    """A request whose answer leaves."""

    @property
    def began_ms(self) -> float: ...

    @property
    def route(self) -> RouteMeter | None: ...


class Crowd(Protocol):
    """The counts of all connections."""

    @property
    def received_bytes(self) -> int: ...

    @property
    def sent_bytes(self) -> int: ...

    def __len__(self) -> int: ...


class RouteMeter:
    """The answers of one method and route."""

    __slots__ = ("_answers", "_seconds", "_took", "took")

    def __init__(self, answers: Sequence[Counter], seconds: Histogram) -> None:
        self._answers = answers
        self._seconds = seconds
        self._took: list[list[float]] = [[] for _ in answers]
        #: Told how many milliseconds an answer took, by the first digit of its status.
        self.took = [self._took[0].append, *(one.append for one in self._took)]

    def publish(self) -> int:
        """Count the answers. Return how many there were."""
        count = 0
        for answers, took in zip(self._answers, self._took, strict=True):
            if took:
                count += len(took)
                answers.inc(len(took))
                self._seconds.observe_all([one / 1000 for one in took])
                took.clear()
        return count


class RequestMeter:
    """All answers of one process."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._answers = registry.counters(
            "queen_http_requests", "Answers by route and class of status.",
            "method", "route", "code",
        )  # fmt: skip
        self._seconds = registry.histograms(
            "queen_request_seconds", "From a complete request to its answer.", "operation"
        )
        self._unavailable = registry.counters(
            "queen_unavailable", "Requests answered 503, by reason.", "reason"
        )
        self._refused = registry.counters(
            "queen_edge_refused", "Requests and connections that the edge refused.",
            "status", "bound",
        )  # fmt: skip
        #: Answers of this process so far, and those that failed because of the database.
        self.requests = 0
        self.db_errors = 0
        for bound in EDGE_BOUNDS:
            self._refused.of("503", bound)
        self._routes: dict[tuple[str, str], RouteMeter] = {}
        self._unknown = self.route("GET", UNKNOWN)
        for path in OPERATIONS:
            self.route("GET" if path.endswith("pop") else "POST", path)

    def route(self, method: str, path: str) -> RouteMeter:
        """Return the meter of a route, by its path as it is declared."""
        meter = self._routes.get((method, path))
        if meter is None:
            by_class = [self._answers.of(method, path, f"{first}xx") for first in _CLASSES]
            seconds = self._seconds.of(OPERATIONS.get(path, "other"))
            meter = self._routes[method, path] = RouteMeter(by_class, seconds)
        return meter

    def note_answer(self, request: Answered, status: int) -> None:
        """Count an answer."""
        (request.route or self._unknown).took[status // 100](now_ms() - request.began_ms)

    def publish(self) -> None:
        """Publish the counts for the other workers."""
        self.requests += sum(route.publish() for route in self._routes.values())

    def note_failure(self, error: QueenError, status: int) -> None:
        """Count an error answer."""
        if status == 503:
            self.db_errors += isinstance(error, StorageUnavailable)
            self._unavailable.of(_reason_of(error)).inc()

    def note_refusal(self, status: int, bound: str) -> None:
        """Count a request that the edge refused by itself."""
        self._refused.of(str(status), bound).inc()

    def watch(self, crowd: Crowd) -> None:
        """Measure connections and bytes as well."""
        registry = self._registry
        registry.gauge("queen_connections", "Open connections.", read=lambda: len(crowd))
        registry.counter(
            "queen_http_received_bytes", "Bytes of requests.", read=lambda: crowd.received_bytes
        )
        registry.counter(
            "queen_http_sent_bytes", "Bytes of answers.", read=lambda: crowd.sent_bytes
        )

    @property
    def total(self) -> int:
        """Count all answers of the broker."""
        self.publish()
        return int(self._registry.sum("queen_http_requests"))


def _reason_of(error: QueenError) -> str:
    if isinstance(error, StorageUnavailable):
        return error.reason
    if isinstance(error, Overloaded):
        return error.bound
    return "spool_failed" if isinstance(error, SpoolFailed) else "partition_busy"
