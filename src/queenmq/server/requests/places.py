"""Reads queue and partition out of a path below `/api/v1/resources/queues/`."""

from __future__ import annotations

from starlette.requests import Request
from starlette.types import Scope

from queenmq.auth.decision import check_queue
from queenmq.server.auth.callers import identity_of
from queenmq.server.requests.checks import check_name
from queenmq.server.requests.queries import parse_path

_QUEUES = b"/api/v1/resources/queues/"
_PARTITIONS = b"/partitions/"


def names_partition(scope: Scope) -> bool:
    """Tell a partition below a queue from a queue whose name has an escaped slash."""
    return _PARTITIONS in scope["raw_path"]


def parse_place(request: Request, *, length_max: int) -> tuple[str, str]:
    """Return the queue, which the caller may reach, and the partition.

    They are read from the path as it came, because a slash inside a name is an escaped one.
    """
    path: bytes = request.scope["raw_path"].removeprefix(_QUEUES)
    queue, partition = (parse_path(part) for part in path.split(_PARTITIONS, 1))
    check_name("queue", queue, length_max=length_max)
    check_name("partition", partition, length_max=length_max)
    check_queue(identity_of(request), queue)
    return queue, partition
