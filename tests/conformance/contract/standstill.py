"""A broker that cannot store pushes now, and the copy of a database: what stops other cases.

The cases of each tuple are sent in order, to a broker of their own.
"""

from __future__ import annotations

from tests.conformance.contract.case import ERROR, Case
from tests.support.shapes import BOOL, INT, STR, Maybe

_BUFFERED = {"status": "buffered", "queue": STR, "partition": STR, "transactionId": STR}
_NAMED = {"queue": "{fresh}", "partition": "p", "transactionId": "given", "payload": 1}
_MODE = {"bufferedMessages": INT, "bufferHealthy": BOOL, "message": STR}
_TARGET = {
    "host": "{host}", "port": "{port}", "database": "{database}", "user": "{user}",
    "password": "", "ssl": False,
}  # fmt: skip

MAINTENANCE = (
    Case("POST", "/api/v1/system/maintenance", {"maintenanceMode": True, **_MODE},
         {"enabled": True}),
    Case("POST", "/api/v1/push", [{**_BUFFERED, "partition": "p", "transactionId": "given"}],
         {"items": [_NAMED]}, 201),
    Case("POST", "/api/v1/push", [{**_BUFFERED, "partition": "Default"}],
         {"items": [{"queue": "{fresh}"}, {"queue": "{fresh}"}]}, 201),
    Case("POST", "/api/v1/push", ERROR, {"items": [{"queue": 1}]}, 400),
    Case("POST", "/api/v1/system/maintenance", {"maintenanceMode": False, **_MODE},
         {"enabled": False}),
)  # fmt: skip
#: 0.15.1 answers 201 here as well. docs/api.md says what 202 means.
OUTAGE = (
    Case("POST", "/api/v1/push", [{**_BUFFERED, "partition": "p", "transactionId": "given"}],
         {"items": [_NAMED]}, 202),
    Case("POST", "/api/v1/push", [{**_BUFFERED, "partition": "Default"}],
         {"items": [{"queue": "{fresh}"}]}, 202),
)  # fmt: skip
BEFORE_COPY = (
    Case("POST", "/api/v1/migration/start", ERROR, {}, 400),
    Case("POST", "/api/v1/migration/validate", ERROR, {}, 400),
    Case("POST", "/api/v1/migration/validate", ERROR, {**_TARGET, "port": "1"}, 409),
    Case("POST", "/api/v1/migration/test-connection",
         {"success": True, "message": STR, "version": STR}, _TARGET),
    Case("POST", "/api/v1/migration/start", {"success": True, "message": STR}, _TARGET),
)  # fmt: skip
AFTER_COPY = (
    Case("GET", "/api/v1/migration/status", {"status": "completed", "error": Maybe(STR)}),
    Case("POST", "/api/v1/migration/validate", {"success": True, "allMatch": True, "tables": [
        {"table": STR, "sourceCount": INT, "targetCount": INT, "match": True},
    ]}, _TARGET),
    Case("POST", "/api/v1/migration/reset", {"success": True, "message": STR}),
)  # fmt: skip
CASES = (*MAINTENANCE, *OUTAGE, *BEFORE_COPY, *AFTER_COPY)
