"""Malformed requests: what to send, the status it must get, and the word its error must contain."""

from __future__ import annotations

import json
import uuid
from typing import Any, NamedTuple

PUSH, ACK, BATCH = "/api/v1/push", "/api/v1/ack", "/api/v1/ack/batch"
CONFIGURE, TRANSACTION, DLQ = "/api/v1/configure", "/api/v1/transaction", "/api/v1/dlq"
POP = "/api/v1/pop/queue"
SOME_ID = str(uuid.uuid4())
LONG = "n" * 300
#: Short enough in characters, too long for an index in bytes.
WIDE = "𝒬" * 250


class Bad(NamedTuple):
    """One malformed request."""

    method: str
    path: str
    body: Any
    names: str
    status: int = 400


def deep(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


def post(path: str, body: Any, names: str, status: int = 400) -> Bad:
    return Bad("POST", path, body, names, status)


def get(path: str, names: str, status: int = 400) -> Bad:
    return Bad("GET", path, None, names, status)


def item(names: str, **fields: Any) -> Bad:
    """A push of one item, good but for these fields."""
    return post(PUSH, {"items": [{"queue": "bad-input", "payload": 1, **fields}]}, names)


def ack(names: str, **fields: Any) -> Bad:
    """An ack, good but for these fields."""
    return post(ACK, {"transactionId": "t", "partitionId": SOME_ID, **fields}, names)


def option(name: str, value: Any) -> Bad:
    return post(CONFIGURE, {"queue": "bad-input", "options": {name: value}}, name)


def operation(names: str, **fields: Any) -> Bad:
    return post(TRANSACTION, {"operations": [fields]}, names)


BODIES = {
    "push-empty-body": post(PUSH, b"", "body"),
    "push-blank-body": post(PUSH, b"  \n ", "JSON"),
    "push-truncated": post(PUSH, b'{"items":[{"queue":"q","payl', "JSON"),
    "push-not-json": post(PUSH, b"queue=q&payload=1", "JSON"),
    "push-two-documents": post(PUSH, b'{"items":[]}{"items":[]}', "JSON"),
    "push-byte-order-mark": post(PUSH, b'\xef\xbb\xbf{"items":[]}', "JSON"),
    "push-utf-16": post(PUSH, '{"items":[]}'.encode("utf-16"), "JSON"),
    "push-invalid-utf-8-in-name": post(PUSH, b'{"items":[{"queue":"\xff"}]}', "UTF-8"),
    "push-invalid-utf-8-in-payload": post(
        PUSH, b'{"items":[{"queue":"q","payload":"\xc3\x28"}]}', "UTF-8"
    ),
    "push-surrogate-bytes": post(
        PUSH, b'{"items":[{"queue":"q","payload":"\xed\xa0\x80"}]}', "UTF-8"
    ),
    "push-overlong-utf-8": post(PUSH, b'{"items":[{"queue":"\xc0\xaf"}]}', "UTF-8"),
    "push-lone-surrogate-in-name": post(PUSH, rb'{"items":[{"queue":"\ud800x"}]}', "JSON"),
    "push-lone-surrogate-in-payload": post(
        PUSH, rb'{"items":[{"queue":"q","payload":"\udfff"}]}', "JSON"
    ),
    "push-raw-nul": post(PUSH, b'{"items":[{"queue":"q\x00"}]}', "JSON"),
    "push-raw-new-line": post(PUSH, b'{"items":[{"queue":"q","payload":"a\nb"}]}', "JSON"),
    "push-nan": post(PUSH, b'{"items":[{"queue":"q","payload":NaN}]}', "JSON"),
    "push-leading-zero": post(PUSH, b'{"items":[{"queue":"q","payload":01}]}', "JSON"),
    "push-trailing-comma": post(PUSH, b'{"items":[{"queue":"q","payload":[1,]}]}', "JSON"),
    "push-single-quotes": post(PUSH, b"{'items':[]}", "JSON"),
    "push-deep-body": post(PUSH, deep(2000), "body"),
    "push-deep-payload": post(
        PUSH, b'{"items":[{"queue":"q","payload":' + deep(2000) + b"}]}", "nested"
    ),
    "push-deep-unknown-field": post(PUSH, b'{"items":[],"x":' + deep(2000) + b"}", "nested"),
    "push-very-deep-payload": post(
        PUSH, b'{"items":[{"queue":"q","payload":' + deep(200_000) + b"}]}", "nested"
    ),
    "push-array": post(PUSH, [], "body"),
    "push-null": post(PUSH, b"null", "body"),
    "push-number": post(PUSH, b"1", "body"),
    "push-without-items": post(PUSH, {}, "items"),
    "push-items-null": post(PUSH, {"items": None}, "items"),
    "push-items-object": post(PUSH, {"items": {}}, "items"),
    "push-items-text": post(PUSH, {"items": "x"}, "items"),
    "push-item-null": post(PUSH, {"items": [None]}, "items[0]"),
    "push-item-text": post(PUSH, {"items": [{"queue": "q"}, "x"]}, "items[1]"),
}
PUSH_FIELDS = {
    "queue-missing": post(PUSH, {"items": [{"payload": 1}]}, "queue"),
    "queue-null": item("queue", queue=None),
    "queue-number": item("queue", queue=5),
    "queue-object": item("queue", queue={}),
    "queue-empty": item("queue", queue=""),
    "queue-long": item("queue", queue=LONG),
    "queue-wide": item("queue", queue=WIDE),
    "queue-nul": item("queue", queue="a\x00b"),
    "partition-number": item("partition", partition=5),
    "partition-array": item("partition", partition=["a"]),
    "partition-empty": item("partition", partition=""),
    "partition-long": item("partition", partition=LONG),
    "partition-wide": item("partition", partition=WIDE),
    "partition-nul": item("partition", partition="\x00"),
    "transaction-id-number": item("transactionId", transactionId=5),
    "transaction-id-empty": item("transactionId", transactionId=""),
    "transaction-id-long": item("transactionId", transactionId=LONG),
    "transaction-id-nul": item("transactionId", transactionId="a\x00"),
    "trace-id-number": item("traceId", traceId=5),
    "trace-id-empty": item("traceId", traceId=""),
    "trace-id-text": item("traceId", traceId="not-a-uuid"),
    "trace-id-without-dashes": item("traceId", traceId="0" * 32),
}
POPS = {
    "pop-no-place": get("/api/v1/pop", "namespace"),
    "pop-empty-place": get("/api/v1/pop?namespace=&task=", "namespace"),
    "pop-long-queue": get(f"{POP}/{LONG}", "queue"),
    "pop-long-partition": get(f"{POP}/q/partition/{LONG}", "partition"),
    "pop-empty-partition": get(f"{POP}/q/partition/", "partition"),
    "pop-long-group": get(f"{POP}/q?consumerGroup={LONG}", "consumerGroup"),
    "pop-wide-group": get(f"{POP}/q?consumerGroup={WIDE}", "consumerGroup"),
    "pop-long-namespace": get(f"/api/v1/pop?namespace={LONG}", "namespace"),
    "pop-long-task": get(f"/api/v1/pop?task={LONG}", "task"),
    "pop-nul-queue": get(f"{POP}/a%00b", "queue"),
    "pop-nul-partition": get(f"{POP}/q/partition/%00", "partition"),
    "pop-nul-group": get(f"{POP}/q?consumerGroup=%00", "consumerGroup"),
    "pop-nul-namespace": get("/api/v1/pop?namespace=%00", "namespace"),
    "pop-invalid-utf-8-queue": get(f"{POP}/%FF", "UTF-8"),
    "pop-surrogate-queue": get(f"{POP}/%ED%A0%80", "UTF-8"),
    "pop-invalid-utf-8-group": get(f"{POP}/q?consumerGroup=%FF", "consumerGroup"),
    "pop-batch-zero": get(f"{POP}/q?batch=0", "batch"),
    "pop-batch-negative": get(f"{POP}/q?batch=-5", "batch"),
    "pop-batch-huge": get(f"{POP}/q?batch=99999999999999999999", "batch"),
    "pop-partitions-zero": get(f"{POP}/q?partitions=0", "partitions"),
    "pop-partitions-negative": get(f"{POP}/q?partitions=-1", "partitions"),
    "pop-timeout-negative": get(f"{POP}/q?wait=true&timeout=-1", "timeout"),
    "pop-timeout-huge": get(f"{POP}/q?wait=true&timeout=999999999999", "timeout"),
    "pop-from-text": get(f"{POP}/q?consumerGroup=g&subscriptionFrom=soon", "subscriptionFrom"),
    "pop-from-before-all-time": get(
        f"{POP}/q?consumerGroup=g&subscriptionFrom=0001-01-01T00:00:00%2B14:00", "subscriptionFrom"
    ),
    "pop-from-after-all-time": get(
        f"{POP}/q?consumerGroup=g&subscriptionFrom=9999-12-31T23:59:59-14:00", "subscriptionFrom"
    ),
}
ACKS = {
    "ack-empty-body": post(ACK, b"", "body"),
    "ack-array": post(ACK, [], "body"),
    "ack-without-transaction": post(ACK, {"partitionId": SOME_ID}, "transactionId"),
    "ack-without-partition": post(ACK, {"transactionId": "t"}, "partitionId"),
    "ack-transaction-null": ack("transactionId", transactionId=None),
    "ack-transaction-number": ack("transactionId", transactionId=1),
    "ack-transaction-empty": ack("transactionId", transactionId=""),
    "ack-transaction-long": ack("transactionId", transactionId=LONG),
    "ack-transaction-nul": ack("transactionId", transactionId="\x00"),
    "ack-partition-null": ack("partitionId", partitionId=None),
    "ack-partition-text": ack("partitionId", partitionId="Default"),
    "ack-partition-sql": ack("partitionId", partitionId="' OR 1=1 --"),
    "ack-partition-braces": ack("partitionId", partitionId="{" + SOME_ID + "}"),
    "ack-lease-number": ack("leaseId", leaseId=5),
    "ack-status-number": ack("status", status=1),
    "ack-status-nul": ack("status", status="a\x00"),
    "ack-error-object": ack("error", error={"why": 1}),
    "ack-error-nul": ack("error", error="a\x00b"),
    "ack-group-number": ack("consumerGroup", consumerGroup=1),
    "ack-group-long": ack("consumerGroup", consumerGroup=LONG),
    "ack-group-nul": ack("consumerGroup", consumerGroup="\x00"),
    "batch-missing": post(BATCH, {}, "acknowledgments"),
    "batch-null": post(BATCH, {"acknowledgments": None}, "acknowledgments"),
    "batch-object": post(BATCH, {"acknowledgments": {}}, "acknowledgments"),
    "batch-item-null": post(BATCH, {"acknowledgments": [None]}, "acknowledgments[0]"),
    "batch-item-without-partition": post(
        BATCH, {"acknowledgments": [{"transactionId": "t"}]}, "partitionId"
    ),
    "batch-item-bad-partition": post(
        BATCH, {"acknowledgments": [{"transactionId": "t", "partitionId": "x"}]}, "partitionId"
    ),
    "batch-group-object": post(
        BATCH, {"acknowledgments": [], "consumerGroup": {}}, "consumerGroup"
    ),
}
QUEUES = {
    "configure-empty-body": post(CONFIGURE, b"", "body"),
    "configure-without-queue": post(CONFIGURE, {"options": {}}, "queue"),
    "configure-queue-empty": post(CONFIGURE, {"queue": ""}, "queue"),
    "configure-queue-long": post(CONFIGURE, {"queue": LONG}, "queue"),
    "configure-queue-nul": post(CONFIGURE, {"queue": "\x00"}, "queue"),
    "configure-namespace-number": post(CONFIGURE, {"queue": "q", "namespace": 1}, "namespace"),
    "configure-namespace-long": post(CONFIGURE, {"queue": "q", "namespace": LONG}, "namespace"),
    "configure-namespace-nul": post(CONFIGURE, {"queue": "q", "namespace": "\x00"}, "namespace"),
    "configure-task-long": post(CONFIGURE, {"queue": "q", "task": LONG}, "task"),
    "configure-task-wide": post(CONFIGURE, {"queue": "q", "task": WIDE}, "task"),
    "configure-options-array": post(CONFIGURE, {"queue": "q", "options": []}, "options"),
    "option-lease-text": option("leaseTime", "60"),
    "option-lease-negative": option("leaseTime", -1),
    "option-lease-huge": option("leaseTime", 2**31),
    "option-lease-fraction": option("leaseTime", 1.5),
    "option-retry-limit-null": option("retryLimit", None),
    "option-retry-delay-negative": option("retryDelay", -1),
    "option-priority-huge": option("priority", 10**20),
    "option-max-size-negative": option("maxSize", -1),
    "option-encryption-text": option("encryptionEnabled", "true"),
    "option-poison-word": option("onPoison", "explode"),
    "delete-long": Bad("DELETE", f"/api/v1/resources/queues/{LONG}", None, "queue"),
    "delete-nul": Bad("DELETE", "/api/v1/resources/queues/a%00", None, "queue"),
    "delete-invalid-utf-8": Bad("DELETE", "/api/v1/resources/queues/%FF", None, "UTF-8"),
    "clear-long": Bad("DELETE", f"/api/v1/queues/{LONG}/clear", None, "queue"),
    "clear-partition-nul": Bad("DELETE", "/api/v1/queues/q/clear?partition=%00", None, "partition"),
    "dlq-limit-negative": get(f"{DLQ}?limit=-1", "limit"),
    "dlq-limit-huge": get(f"{DLQ}?limit=99999999999999999999", "limit"),
    "dlq-offset-negative": get(f"{DLQ}?offset=-1", "offset"),
    "dlq-offset-huge": get(f"{DLQ}?offset=99999999999999999999", "offset"),
    "dlq-from-text": get(f"{DLQ}?from=soon", "from"),
    "dlq-to-before-all-time": get(f"{DLQ}?to=0001-01-01T00:00:00%2B14:00", "to "),
    "dlq-queue-nul": get(f"{DLQ}?queue=%00", "queue"),
    "dlq-queue-invalid-utf-8": get(f"{DLQ}?queue=%FF", "UTF-8"),
}
TRANSACTIONS = {
    "transaction-empty-body": post(TRANSACTION, b"", "body"),
    "transaction-without-operations": post(TRANSACTION, {}, "operations"),
    "transaction-no-operations": post(TRANSACTION, {"operations": []}, "operations"),
    "transaction-operations-object": post(TRANSACTION, {"operations": {}}, "operations"),
    "operation-null": post(TRANSACTION, {"operations": [None]}, "operations[0]"),
    "operation-without-type": operation("type", items=[]),
    "operation-type-number": operation("type", type=1),
    "operation-push-without-items": operation("items", type="push"),
    "operation-push-no-items": operation("items", type="push", items=[]),
    "operation-push-item-without-queue": operation("queue", type="push", items=[{"payload": 1}]),
    "operation-push-queue-long": operation("queue", type="push", items=[{"queue": LONG}]),
    "operation-push-bad-trace": operation(
        "traceId", type="push", items=[{"queue": "q", "traceId": "x"}]
    ),
    "operation-ack-without-transaction": operation(
        "transactionId", type="ack", partitionId=SOME_ID
    ),
    "operation-ack-bad-partition": operation(
        "partitionId", type="ack", transactionId="t", partitionId="x"
    ),
    "required-leases-text": post(
        TRANSACTION,
        {"operations": [{"type": "push", "items": [{"queue": "q"}]}], "requiredLeases": "x"},
        "requiredLeases",
    ),
    "extend-truncated": post(f"/api/v1/lease/{SOME_ID}/extend", b'{"seconds":', "JSON"),
    "extend-array": post(f"/api/v1/lease/{SOME_ID}/extend", [], "body"),
    "extend-seconds-huge": post(f"/api/v1/lease/{SOME_ID}/extend", {"seconds": 10**40}, "seconds"),
}
MESSAGE = f"/api/v1/messages/{SOME_ID}"
TRACES, STATUS = "/api/v1/traces", "/api/v1/status"


def trace(names: str, status: int = 400, **fields: Any) -> Bad:
    """A trace, good but for these fields."""
    good = {"transactionId": "t", "partitionId": SOME_ID, "data": 1}
    return post(TRACES, {**good, **fields}, names, status)


INSPECTION = {
    "messages-limit-huge": get("/api/v1/messages?limit=1001", "limit"),
    "messages-offset-huge": get("/api/v1/messages?offset=20000", "offset"),
    "messages-offset-negative": get("/api/v1/messages?offset=-1", "offset"),
    "messages-status": get("/api/v1/messages?status=lost", "status"),
    "messages-from-text": get("/api/v1/messages?from=soon", "from"),
    "messages-from-after-to": get("/api/v1/messages?from=2030-01-02&to=2030-01-01", "from"),
    "messages-to-before-all-time": get("/api/v1/messages?to=0001-01-01T00:00:00Z", "from"),
    "messages-queue-nul": get("/api/v1/messages?queue=%00", "queue"),
    "messages-partition-alone": get("/api/v1/messages?partition=p", "queue"),
    "message-partition-text": get("/api/v1/messages/p/t", "partitionId"),
    "message-id-long": get(f"{MESSAGE}/{LONG}", "transactionId"),
    "message-id-nul": get(f"{MESSAGE}/%00", "transactionId"),
    "message-id-invalid-utf-8": get(f"{MESSAGE}/%FF", "UTF-8"),
    "message-delete-partition": Bad("DELETE", "/api/v1/messages/p/t", None, "partitionId"),
    "message-retry-partition": post("/api/v1/messages/p/t/retry", b"", "partitionId"),
    "message-bury-partition": post("/api/v1/messages/p/t/dlq", b"", "partitionId"),
    "message-bury-error-number": post(f"{MESSAGE}/t/dlq", {"error": 1}, "error"),
    "message-bury-error-nul": post(f"{MESSAGE}/t/dlq", {"error": "\x00"}, "error"),
    "message-bury-truncated": post(f"{MESSAGE}/t/dlq", b'{"error":', "JSON"),
    "retry-letters-nothing": post(f"{DLQ}/retry", {}, "queue"),
    "retry-letters-limit-zero": post(f"{DLQ}/retry", {"queue": "q", "limit": 0}, "limit"),
    "retry-letters-limit-huge": post(f"{DLQ}/retry", {"queue": "q", "limit": 1001}, "limit"),
    "retry-letters-age-negative": post(
        f"{DLQ}/retry", {"queue": "q", "olderThanSeconds": -1}, "olderThanSeconds"
    ),
    "retry-letters-queue-number": post(f"{DLQ}/retry", {"queue": 1}, "queue"),
    "retry-letters-queue-nul": post(f"{DLQ}/retry", {"queue": "\x00"}, "queue"),
    "purge-letters-nothing": Bad("DELETE", DLQ, None, "queue"),
    "purge-letters-limit-text": Bad("DELETE", f"{DLQ}?queue=q&limit=all", None, "limit"),
    "purge-letters-limit-huge": Bad("DELETE", f"{DLQ}?queue=q&limit=10001", None, "limit"),
    "purge-letters-limit-zero": Bad("DELETE", f"{DLQ}?queue=q&limit=0", None, "limit"),
    "purge-letters-age-text": Bad("DELETE", f"{DLQ}?olderThanSeconds=-1", None, "olderThanSeconds"),
    "purge-letters-age-huge": Bad(
        "DELETE", f"{DLQ}?olderThanSeconds=99999999999999999999999", None, "olderThanSeconds"
    ),
    "trace-empty-body": post(TRACES, b"", "body"),
    "trace-without-data": post(TRACES, {"transactionId": "t", "partitionId": SOME_ID}, "data"),
    "trace-without-transaction": post(TRACES, {"partitionId": SOME_ID, "data": 1}, "transactionId"),
    "trace-without-partition": post(TRACES, {"transactionId": "t", "data": 1}, "partitionId"),
    "trace-partition-text": trace("partitionId", partitionId="p"),
    "trace-transaction-empty": trace("transactionId", transactionId=""),
    "trace-names-number": trace("traceNames", traceNames=1),
    "trace-names-empty-name": trace("traceNames[1]", traceNames=["a", ""]),
    "trace-names-many": trace("traceNames", traceNames=["a"] * 17),
    "trace-names-nul": trace("traceNames[0]", traceNames="\x00"),
    "trace-event-nul": trace("eventType", eventType="\x00"),
    "trace-group-long": trace("consumerGroup", consumerGroup=LONG),
    "trace-data-large": trace("data", 413, data="x" * 70_000),
    "traces-of-text": get(f"{TRACES}/p/t", "partitionId"),
    "traces-by-name-limit": get(f"{TRACES}/by-name/n?limit=1001", "limit"),
    "traces-by-name-long": get(f"{TRACES}/by-name/{LONG}", "name"),
    "traces-names-offset": get(f"{TRACES}/names?offset=-1", "offset"),
    "status-from-text": get(f"{STATUS}?from=soon", "from"),
    "status-span-empty": get(f"{STATUS}?from=2030-01-01&to=2030-01-01", "from"),
    "status-span-long": get(f"{STATUS}?from=2000-01-01&to=2030-01-01", "366 days"),
    "status-queue-nul": get(f"{STATUS}?queue=%00", "queue"),
    "status-queues-limit": get(f"{STATUS}/queues?limit=10001", "limit"),
    "status-queue-long": get(f"{STATUS}/queues/{LONG}", "queue"),
    "status-messages-limit": get(f"{STATUS}/queues/q/messages?limit=1001", "limit"),
    "analytics-interval": get(f"{STATUS}/analytics?interval=second", "interval"),
    "analytics-points": get(
        f"{STATUS}/analytics?interval=minute&from=2030-01-01&to=2030-02-01", "1500"
    ),
    "why-queue-nul": get("/api/v1/why/%00", "queue"),
    "why-partition-long": get(f"/api/v1/why/q?partition={LONG}", "partition"),
    "why-group-nul": get("/api/v1/why/q?consumerGroup=%00", "consumerGroup"),
}
CASES = {**BODIES, **PUSH_FIELDS, **POPS, **ACKS, **QUEUES, **TRANSACTIONS, **INSPECTION}


def body_of(bad: Bad) -> bytes | None:
    """The body as it goes on the wire."""
    if bad.body is None or isinstance(bad.body, bytes):
        return bad.body
    return json.dumps(bad.body).encode()
