"""The queues of a job, in terms of the source's options. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from queenmq.spark.source.options import Scope, read_options


@dataclass(frozen=True)
class Choice:
    """Queues and partitions by the source's own options; none of them: all queues."""

    url: str
    queue: str | None = None
    queue_pattern: str | None = None
    namespace: str | None = None
    task: str | None = None
    partitions: str | None = None

    def options(self) -> dict[str, str]:
        """Return the options of the source, without the address."""
        given = {
            "queue": self.queue,
            "queuePattern": self.queue_pattern,
            "namespace": self.namespace,
            "task": self.task,
            "partitions": self.partitions,
        }
        found = {name: value for name, value in given.items() if value is not None}
        return found if found.keys() - {"partitions"} else {**found, "queuePattern": ".*"}

    def scope(self) -> Scope:
        """Return the scope, checked as the source checks it."""
        return read_options({"url": self.url, **self.options()}).scope
