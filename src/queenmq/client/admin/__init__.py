"""Owns `queen.admin`: the calls for operators and dashboards.

Answers are the Structs of `queenmq.wire`: `queue.created_at` is `queue["createdAt"]`. A call
about something that does not exist raises ResourceNotFound. One module per capability.
"""

from __future__ import annotations

from queenmq.client.admin.access import AccessCalls
from queenmq.client.admin.groups import GroupCalls
from queenmq.client.admin.history import HistoryCalls
from queenmq.client.admin.messages import MessageCalls
from queenmq.client.admin.operating import OperatingCalls
from queenmq.client.admin.queues import QueueCalls
from queenmq.client.admin.status import StatusCalls
from queenmq.client.admin.traces import TraceCalls


class Admin(
    QueueCalls,
    MessageCalls,
    TraceCalls,
    GroupCalls,
    StatusCalls,
    HistoryCalls,
    OperatingCalls,
    AccessCalls,
):
    """Administrative calls, with the names of the official client."""
