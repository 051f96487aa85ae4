"""Says which calls are long, and how long the client waits for them.

The broker gives them ten minutes, because they change or count many rows in one transaction. It
does not end them when the client leaves. A repeated call would wait behind the first one, each on a
connection of its own.
"""

from __future__ import annotations

import re

#: Seconds that a long call gets beyond the ordinary time limit. The broker's limit ends before.
LONG_S = 600.0

#: Their routes. The dashboard has the same list, in lib/long_calls.js.
ROUTES = (
    "DELETE /api/v1/resources/queues/{queue}",
    "DELETE /api/v1/resources/queues/{queue}/partitions/{partition}",
    "DELETE /api/v1/queues/{queue}/clear",
    "DELETE /api/v1/consumer-groups/{group}",
    "DELETE /api/v1/consumer-groups/{group}/queues/{queue}",
    "POST /api/v1/consumer-groups/{group}/queues/{queue}/seek",
    "POST /api/v1/consumer-groups/{group}/queues/{queue}/partitions/{partition}/seek",
    "GET /api/v1/consumer-groups/{group}/queues/{queue}/seek-preview",
)

# Names in paths are quoted, so they have no slash and no question mark.
_PATTERN = re.compile("|".join(re.sub(r"\{\w+\}", "[^/]+", route) for route in ROUTES))


def is_long(method: str, path: str) -> bool:
    """Return whether a request to this path is a long call. The path may have a query."""
    return _PATTERN.fullmatch(f"{method} {path.partition('?')[0]}") is not None
