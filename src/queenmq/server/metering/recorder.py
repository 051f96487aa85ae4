"""Makes the history rows of a minute from the counts and measurements of this process."""

from __future__ import annotations

import os
import resource
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from queenmq.clock import now_ms
from queenmq.server.metering.minutes import Minutes, QueueMinute, add
from queenmq.server.metering.process import ProcessMetrics
from queenmq.server.metering.requests import RequestMeter
from queenmq.services.history import Minute

#: Columns of a worker that are the sums of its queues.
_SUMS = (
    "push_requests", "push_messages", "pop_requests", "pop_messages", "ack_requests",
    "ack_success", "ack_failed", "dead_lettered", "transactions", "lag_ms", "lag_ms_max",
    "lag_count",
)  # fmt: skip


class Recorder:
    """The source of the history of one process. Implements `queenmq.services.history.Source`."""

    def __init__(
        self,
        minutes: Minutes,
        process: ProcessMetrics,
        meter: RequestMeter,
        *,
        place: int,
        port: int,
        parked: Callable[[], Mapping[str, int]],
    ) -> None:
        self._minutes = minutes
        self._process = process
        self._parked = parked
        self._who = {
            "hostname": os.uname().nodename,
            "worker_id": place,
            "pid": os.getpid(),
            "port": port,
        }
        self._samples: list[tuple[float, ...]] = []
        self._lags_ms = (0.0, 0.0, 0)
        self._used = resource.getrusage(resource.RUSAGE_SELF)
        self._since_ms = now_ms()
        self._meter = meter
        #: Of minutes before this one: answers, and failures of the database.
        self._before = (meter.requests, meter.db_errors)

    @property
    def worker(self) -> str:
        """Return the name of this process in rows of queues."""
        return f"{self._who['hostname']}/{self._who['worker_id']}/{self._who['pid']}"

    def sample(self) -> None:
        """Measure the pool of connections; a minute has the average."""
        pool = self._process.pool
        self._samples.append((pool.size, pool.idle, pool.in_use, pool.waiting))

    def note_lag(self, lag_ms: float) -> None:
        """Note how late a timer was."""
        total, most, count = self._lags_ms
        self._lags_ms = (total + lag_ms, max(most, lag_ms), count + 1)

    def take(self, at: datetime) -> Minute:
        """Return the rows of this minute and reset the counts."""
        key = {"step_minutes": 1, "at": at.isoformat()}
        queues = self._minutes.take()
        parked = self._parked()
        for queue in parked:
            queues.setdefault(queue, QueueMinute())
        total = QueueMinute()
        rows = []
        for queue, minute in queues.items():
            add(total, minute)
            columns = msgspec.structs.asdict(minute)
            row = {**key, "queue": queue, "worker": self.worker, "parked": parked.get(queue, 0)}
            rows.append({**row, **columns})
        sums = {name: getattr(total, name) for name in _SUMS}
        worker = {**key, **self._who, **self._measure(), **sums, "parked": sum(parked.values())}
        self._meter.publish()
        requests, errors = self._meter.requests, self._meter.db_errors
        worker["http_requests"] = requests - self._before[0]
        worker["db_errors"] = errors - self._before[1]
        self._before = (requests, errors)
        return Minute(rows, worker, _totals_of(worker))

    def put_back(self, minute: Minute) -> None:
        """Add a minute that could not be written to the next one."""
        names = QueueMinute.__struct_fields__
        self._minutes.put_back(
            {
                row["queue"]: QueueMinute(**{name: row[name] for name in names})
                for row in minute.queues
            }
        )
        requests, errors = self._before
        self._before = (
            requests - minute.worker["http_requests"],
            errors - minute.worker["db_errors"],
        )

    def _measure(self) -> dict[str, Any]:
        used, now = resource.getrusage(resource.RUSAGE_SELF), now_ms()
        passed_s = max(now - self._since_ms, 1.0) / 1000
        before, self._used, self._since_ms = self._used, used, now
        self.sample()
        samples, self._samples = self._samples, []
        size, idle, active, waiting = (sum(c) / len(c) for c in zip(*samples, strict=True))
        total, most, count = self._lags_ms
        self._lags_ms = (0.0, 0.0, 0)
        return {
            "cpu_user": 100 * (used.ru_utime - before.ru_utime) / passed_s,
            "cpu_system": 100 * (used.ru_stime - before.ru_stime) / passed_s,
            "rss_bytes": self._process.resident_bytes,
            "virtual_bytes": self._process.virtual_bytes,
            "pool_size": size,
            "pool_idle": idle,
            "pool_active": active,
            "pool_waiting": waiting,
            "loop_lag_ms": total / count if count else 0.0,
            "loop_lag_ms_max": most,
        }


def _totals_of(worker: Mapping[str, Any]) -> dict[str, int]:
    """Return what a minute adds to the totals of all brokers."""
    totals = Counter(
        {
            name: int(worker[name])
            for name in (
                "push_requests", "push_messages", "pop_requests", "pop_messages", "ack_requests",
                "ack_success", "ack_failed", "transactions", "db_errors",
            )
        }
    )  # fmt: skip
    totals["ack_messages"] = totals["ack_success"] + totals["ack_failed"]
    totals["dlq"] = int(worker["dead_lettered"])
    return {name: count for name, count in totals.items() if count}
