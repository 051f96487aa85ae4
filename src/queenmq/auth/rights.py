"""The one table of what each route needs: a role, a verb, and which queues it reaches.

Every request is checked against its row, the hot routes and the others alike. A route without a row
is for administrators without limits, and a test fails until it has one.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from queenmq.auth.identity import Role, Verb


class Reach(enum.StrEnum):
    """The queues that a request concerns. It decides how a token limited to queues is checked."""

    #: No queue: nothing to check.
    NONE = "none"
    #: The queue that the path names.
    PATH = "path"
    #: The queue of the parameter `queue`, which a limited token has to send.
    QUERY = "query"
    #: Queues that the body names; the handler checks each.
    BODY = "body"
    #: What an id stands for; the handler answers an id out of reach like one that does not exist.
    ID = "id"
    #: A list; the handler leaves out what is out of reach.
    LIST = "list"
    #: All queues: a limited token is refused.
    ALL = "all"


class Right(NamedTuple):
    """A row of the table."""

    #: None: public.
    role: Role | None
    reach: Reach
    #: None: any.
    verb: Verb | None = None
    #: The name under which it stands in the audit log; None: no administrative action.
    action: str | None = None
    #: Whether the body goes to the audit log, too.
    is_body_logged: bool = True
    #: Whether a page of another site could do harm by having a browser send it.
    is_change: bool = True


PUBLIC, READ, WRITE, ADMIN = None, Role.READ_ONLY, Role.READ_WRITE, Role.ADMIN
PUSH, POP, MANAGE = Verb.PUSH, Verb.POP, Verb.ADMIN

_QUEUE = "/api/v1/resources/queues/{queue:name}"
_GROUP = "/api/v1/consumer-groups/{group:name}"
_MESSAGE = "/api/v1/messages/{partition_id}/{transaction_id:name}"
_OPERATION = "/api/v1/operations/{operation_id}"


def _read(reach: Reach, verb: Verb | None = None) -> Right:
    return Right(READ, reach, verb, is_change=False)


_HOT = {
    "POST /api/v1/push": Right(WRITE, Reach.BODY, PUSH),
    "POST /api/v1/push/once": Right(WRITE, Reach.BODY, PUSH),
    "GET /api/v1/pop": Right(WRITE, Reach.ALL, POP),
    "GET /api/v1/pop/queue/{queue:name}": Right(WRITE, Reach.PATH, POP),
    "POST /api/v1/ack": Right(WRITE, Reach.ID, POP),
    "POST /api/v1/ack/batch": Right(WRITE, Reach.ID, POP),
    # Each operation of a transaction needs its own verb; the handler checks both.
    "POST /api/v1/transaction": Right(WRITE, Reach.BODY),
    "POST /api/v1/lease/{lease_id:name}/extend": Right(WRITE, Reach.ID, POP),
}
_QUEUES = {
    "POST /api/v1/configure": Right(WRITE, Reach.BODY, MANAGE, "queue.configure"),
    "GET /api/v1/resources/queues": _read(Reach.LIST),
    f"GET {_QUEUE}": _read(Reach.PATH),
    f"GET {_QUEUE}/partitions": _read(Reach.PATH),
    f"GET {_QUEUE}/partitions/{{partition:name}}": _read(Reach.PATH),
    f"DELETE {_QUEUE}": Right(ADMIN, Reach.PATH, MANAGE, "queue.delete"),
    f"DELETE {_QUEUE}/partitions/{{partition:name}}": Right(
        ADMIN, Reach.PATH, MANAGE, "partition.delete"
    ),
    "DELETE /api/v1/queues/{queue:name}/clear": Right(ADMIN, Reach.PATH, MANAGE, "queue.clear"),
    "GET /api/v1/resources/namespaces": _read(Reach.ALL),
    "GET /api/v1/resources/tasks": _read(Reach.ALL),
    "GET /api/v1/resources/overview": _read(Reach.ALL),
    "GET /api/v1/resources/partitions": _read(Reach.QUERY),
}
_GROUPS = {
    "GET /api/v1/consumer-groups": _read(Reach.LIST),
    "GET /api/v1/consumer-groups/lagging": _read(Reach.LIST),
    f"GET {_GROUP}": _read(Reach.LIST),
    f"DELETE {_GROUP}": Right(ADMIN, Reach.ALL, MANAGE, "group.delete"),
    f"POST {_GROUP}/subscription": Right(WRITE, Reach.ALL, MANAGE, "group.start"),
    f"POST {_GROUP}/queues/{{queue:name}}/seek": Right(WRITE, Reach.PATH, MANAGE, "group.seek"),
    f"POST {_GROUP}/queues/{{queue:name}}/partitions/{{partition:name}}/seek": Right(
        WRITE, Reach.PATH, MANAGE, "group.seek"
    ),
    f"GET {_GROUP}/queues/{{queue:name}}/seek-preview": _read(Reach.PATH),
    f"GET {_GROUP}/queues/{{queue:name}}/partitions": _read(Reach.PATH),
    f"POST {_GROUP}/queues/{{queue:name}}/partitions/{{partition:name}}/release": Right(
        WRITE, Reach.PATH, MANAGE, "group.release"
    ),
    f"POST {_GROUP}/pause": Right(WRITE, Reach.ALL, MANAGE, "group.pause"),
    f"POST {_GROUP}/resume": Right(WRITE, Reach.ALL, MANAGE, "group.resume"),
    f"DELETE {_GROUP}/queues/{{queue:name}}": Right(ADMIN, Reach.PATH, MANAGE, "group.delete"),
}
#: What shows the contents of messages, or what consumers wrote of them, needs the verb that could
#: pop them. Routes that serve monitoring as well leave those texts out for other callers.
_MESSAGES = {
    "GET /api/v1/messages": _read(Reach.QUERY, POP),
    f"GET {_MESSAGE}": _read(Reach.ID, POP),
    f"DELETE {_MESSAGE}": Right(WRITE, Reach.ID, MANAGE, "message.delete"),
    f"POST {_MESSAGE}/retry": Right(WRITE, Reach.ID, MANAGE, "message.retry"),
    f"POST {_MESSAGE}/dlq": Right(WRITE, Reach.ID, MANAGE, "message.bury"),
    "GET /api/v1/dlq": _read(Reach.QUERY, POP),
    "GET /api/v1/dlq/errors": _read(Reach.LIST, POP),
    "DELETE /api/v1/dlq": Right(ADMIN, Reach.QUERY, MANAGE, "dead_letters.purge"),
    "POST /api/v1/dlq/retry": Right(WRITE, Reach.BODY, MANAGE, "dead_letters.retry"),
    "POST /api/v1/traces": Right(WRITE, Reach.ID, POP),
    "GET /api/v1/traces/names": _read(Reach.ALL, POP),
    "GET /api/v1/traces/by-name/{name:name}": _read(Reach.ALL, POP),
    "GET /api/v1/traces/{partition_id}/{transaction_id:name}": _read(Reach.ID, POP),
    "GET /api/v1/deliveries/{partition_id}/{transaction_id:name}": _read(Reach.ID),
}
_STATUS = {
    "POST /api/v1/stats/refresh": Right(ADMIN, Reach.ALL, MANAGE, "stats.refresh"),
    "GET /api/v1/status": _read(Reach.QUERY),
    "GET /api/v1/status/analytics": _read(Reach.QUERY),
    "GET /api/v1/status/buffers": _read(Reach.ALL),
    "GET /api/v1/status/queues": _read(Reach.LIST),
    "GET /api/v1/status/queues/{queue:name}/messages": _read(Reach.PATH, POP),
    "GET /api/v1/status/queues/{queue:name}": _read(Reach.PATH),
    "GET /api/v1/why": _read(Reach.LIST),
    "GET /api/v1/why/{queue:name}": _read(Reach.PATH),
    "GET /api/v1/analytics/retention": _read(Reach.QUERY),
    "GET /api/v1/analytics/system-metrics": _read(Reach.ALL),
    "GET /api/v1/analytics/worker-metrics": _read(Reach.ALL),
    "GET /api/v1/analytics/queue-lag": _read(Reach.QUERY),
    "GET /api/v1/analytics/queue-ops": _read(Reach.QUERY),
    "GET /api/v1/analytics/group-lag": _read(Reach.QUERY),
    "GET /api/v1/analytics/queue-parked-replicas": _read(Reach.QUERY),
    "GET /api/v1/analytics/postgres-stats": _read(Reach.ALL),
    "GET /api/v1/analytics/pipeline": _read(Reach.ALL),
    "GET /api/v1/analytics/runs": _read(Reach.ALL),
    # Its tables have samples of what was loaded or replayed, with payloads.
    "GET /api/v1/analytics/runs/{run}": _read(Reach.ALL, POP),
    "GET /api/v1/analytics/archive": _read(Reach.ALL),
    "GET /api/v1/analytics/pipeline/{table:name}": _read(Reach.ALL),
}
_OPERATIONS = {
    "GET /api/v1/operations": _read(Reach.QUERY),
    "GET /api/v1/operations/stats": _read(Reach.ALL),
    "GET /api/v1/operations/aside": _read(Reach.ALL),
    "POST /api/v1/operations/retry": Right(ADMIN, Reach.ALL, MANAGE, "operations.retry"),
    f"GET {_OPERATION}": _read(Reach.ID),
    f"POST {_OPERATION}/retry": Right(ADMIN, Reach.ID, MANAGE, "operation.retry"),
    f"POST {_OPERATION}/discard": Right(ADMIN, Reach.ID, MANAGE, "operation.discard"),
}
_STREAMS = {
    "POST /streams/v1/queries": Right(WRITE, Reach.BODY, POP),
    "POST /streams/v1/state/get": Right(WRITE, Reach.ID, POP),
    # Pushes of a cycle need the verb as well; the handler checks it.
    "POST /streams/v1/cycle": Right(WRITE, Reach.ID, POP),
    "GET /api/v1/streams": _read(Reach.LIST),
    "GET /api/v1/streams/{name:name}": _read(Reach.ID),
    "DELETE /api/v1/streams/{name:name}": Right(ADMIN, Reach.ID, MANAGE, "stream.delete"),
}
_SYSTEM = {
    "GET /api/v1/system/shared-state": _read(Reach.ALL),
    "GET /api/v1/system/settings": Right(ADMIN, Reach.ALL, MANAGE, is_change=False),
    "GET /api/v1/system/maintenance": Right(ADMIN, Reach.ALL, MANAGE, is_change=False),
    "POST /api/v1/system/maintenance": Right(ADMIN, Reach.ALL, MANAGE, "maintenance.push"),
    "GET /api/v1/system/maintenance/pop": Right(ADMIN, Reach.ALL, MANAGE, is_change=False),
    "POST /api/v1/system/maintenance/pop": Right(ADMIN, Reach.ALL, MANAGE, "maintenance.pop"),
    "GET /api/v1/migration/status": Right(ADMIN, Reach.ALL, MANAGE, is_change=False),
    # Bodies have the password of the other server.
    "POST /api/v1/migration/test-connection": Right(
        ADMIN, Reach.ALL, MANAGE, "migration.test", is_body_logged=False
    ),
    "POST /api/v1/migration/start": Right(
        ADMIN, Reach.ALL, MANAGE, "migration.start", is_body_logged=False
    ),
    "POST /api/v1/migration/validate": Right(
        ADMIN, Reach.ALL, MANAGE, "migration.validate", is_body_logged=False
    ),
    "POST /api/v1/migration/reset": Right(ADMIN, Reach.ALL, MANAGE, "migration.reset"),
    "GET /api/v1/tokens": Right(ADMIN, Reach.ALL, MANAGE, is_change=False),
    "POST /api/v1/tokens": Right(ADMIN, Reach.ALL, MANAGE, "token.create"),
    "DELETE /api/v1/tokens/{token_id}": Right(ADMIN, Reach.ALL, MANAGE, "token.revoke"),
    "GET /api/v1/audit": Right(ADMIN, Reach.ALL, MANAGE, is_change=False),
    # Its own credential is in the body or header, and the answer's cookie is for this site alone.
    "POST /api/login": Right(
        PUBLIC, Reach.NONE, action="session.login", is_body_logged=False, is_change=False
    ),
    "POST /api/logout": Right(READ, Reach.NONE, action="session.logout", is_body_logged=False),
    "GET /api/me": _read(Reach.NONE),
    "GET /health": Right(PUBLIC, Reach.NONE, is_change=False),
    "GET /health/live": Right(PUBLIC, Reach.NONE, is_change=False),
    "GET /health/ready": Right(PUBLIC, Reach.NONE, is_change=False),
    "GET /metrics": Right(PUBLIC, Reach.NONE, is_change=False),
    # Files of the dashboard, which hold no data.
    "GET /": Right(PUBLIC, Reach.NONE, is_change=False),
    "GET /dashboard": Right(PUBLIC, Reach.NONE, is_change=False),
    "GET /ui": Right(PUBLIC, Reach.NONE, is_change=False),
    "GET /dashboard/{version}/{path:name}": Right(PUBLIC, Reach.NONE, is_change=False),
    "GET /openapi.json": Right(PUBLIC, Reach.NONE, is_change=False),
    # Its series may carry the names of queues.
    "GET /metrics/prometheus": _read(Reach.ALL),
}

RIGHTS: dict[str, Right] = (
    _HOT | _QUEUES | _GROUPS | _MESSAGES | _STATUS | _OPERATIONS | _STREAMS | _SYSTEM
)
#: For a route without a row.
UNLISTED = Right(ADMIN, Reach.ALL, MANAGE, "unlisted")


def right_of(method: str, path: str) -> Right:
    """Return the row of a route by its method and path template."""
    return RIGHTS.get(f"{'GET' if method == 'HEAD' else method} {path}", UNLISTED)
