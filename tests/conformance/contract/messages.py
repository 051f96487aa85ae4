"""Configuration, messages, leases, transactions, dead letters, traces and streams."""

from __future__ import annotations

from tests.conformance.contract.case import ERROR, Case
from tests.support.shapes import (
    ANY,
    BOOL,
    INT,
    MICRO_TIME,
    OBJECT,
    STR,
    TIME,
    UUID,
    Many,
    Maybe,
)

_OPTIONS = {
    **dict.fromkeys(
        (
            "leaseTime", "retryLimit", "retryDelay", "priority", "maxSize", "ttl",
            "delayedProcessing", "windowBuffer", "retentionSeconds", "completedRetentionSeconds",
            "maxWaitTimeSeconds",
        ),
        INT,
    ),
    **dict.fromkeys(
        ("deadLetterQueue", "dlqAfterMaxRetries", "retentionEnabled", "encryptionEnabled"), BOOL
    ),
}  # fmt: skip
QUEUED = {
    "index": INT,
    "transaction_id": STR,
    "status": "queued",
    "message_id": UUID,
    "partition_id": UUID,
    "trace_id": Maybe(UUID),
    "queueName": STR,
}
_DUPLICATE = {
    "index": INT,
    "transaction_id": STR,
    "status": "duplicate",
    "message_id": UUID,
    "queueName": STR,
}
_POPPED = {
    "success": True,
    "queue": STR,
    "partition": STR,
    "partitionId": UUID,
    "leaseId": STR,
    "consumerGroup": STR,
    "partitionsClaimed": INT,
    "messages": [
        {
            "id": UUID,
            "transactionId": STR,
            "traceId": Maybe(UUID),
            "data": ANY,
            "producerSub": Maybe(STR),
            "createdAt": MICRO_TIME,
            "partitionId": UUID,
            "partition": STR,
            "leaseId": STR,
            "consumerGroup": STR,
        }
    ],
}
_ACKED = {
    "index": INT,
    "transactionId": STR,
    "success": BOOL,
    "error": Maybe(STR),
    "queueName": Maybe(STR),
    "partitionName": Maybe(STR),
    "leaseReleased": BOOL,
    "dlq": BOOL,
}
_LISTED = {
    "id": UUID,
    "transactionId": STR,
    "partitionId": UUID,
    "queuePath": STR,
    "queue": STR,
    "partition": STR,
    "namespace": STR,
    "task": STR,
    "status": STR,
    "queueStatus": Maybe(STR),
    "busStatus": Maybe({"consumedBy": INT, "totalGroups": INT}),
    "traceId": Maybe(UUID),
    "producerSub": Maybe(STR),
    "queuePriority": INT,
    "createdAt": TIME,
    "leaseExpiresAt": Maybe(TIME),
}
_MODE = {"hasQueueMode": BOOL, "busGroupsCount": INT, "type": STR}
_PAGE = {"limit": INT, "offset": INT}
_TRACE = {
    "id": UUID,
    "event_type": STR,
    "data": ANY,
    "consumer_group": STR,
    "worker_id": Maybe(STR),
    "created_at": TIME,
    "trace_names": Many(STR),
}
_PUSH = {"queue": "{fresh}", "payload": {"a": 1}}
_ACK = {"transactionId": "{leased_id}", "partitionId": "{leased_partition}"}

CASES = (
    Case("POST", "/api/v1/configure", {
        "configured": True, "queueId": UUID, "partitionId": UUID, "queue": STR, "namespace": STR,
        "task": STR, "options": _OPTIONS, "ignored": Many(STR),
    }, {"queue": "{fresh}", "options": {"leaseTime": 5}}),
    Case("POST", "/api/v1/configure", ERROR, {"options": {}}, 400),
    Case("POST", "/api/v1/push", [QUEUED], {"items": [_PUSH]}, 201),
    Case("POST", "/api/v1/push", [_DUPLICATE],
         {"items": [{"queue": "{queue}", "transactionId": "{dead_id}"}]}, 201),
    Case("POST", "/api/v1/push", Many(QUEUED), {"items": []}, 201),
    Case("POST", "/api/v1/push", ERROR, {}, 400),
    Case("POST", "/api/v1/push", ERROR, {"items": [{"queue": 1}]}, 400),
    Case("GET", "/api/v1/pop/queue/{queue}?consumerGroup=a", _POPPED),
    Case("GET", "/api/v1/pop/queue/{queue}/partition/Default?consumerGroup=b", _POPPED),
    Case("GET", "/api/v1/pop?namespace={namespace}&consumerGroup=c", _POPPED),
    Case("GET", "/api/v1/pop/queue/{queue}?consumerGroup=d&autoAck=true",
         {**_POPPED, "leaseId": ""}),
    Case("GET", "/api/v1/pop/queue/{fresh}-none", None, status=204),
    Case("POST", "/api/v1/ack", [{**_ACKED, "success": True, "error": None}],
         {**_ACK, "leaseId": "{lease}", "consumerGroup": "{group}"}),
    Case("POST", "/api/v1/ack", [{**_ACKED, "success": False, "error": "Message not found"}],
         {**_ACK, "transactionId": "none"}),
    Case("POST", "/api/v1/ack", [{**_ACKED, "success": False, "error": "Invalid or expired lease"}],
         {**_ACK, "leaseId": "{nowhere}"}),
    Case("POST", "/api/v1/ack", ERROR, {"transactionId": "none"}, 400),
    Case("POST", "/api/v1/ack", ERROR, {**_ACK, "partitionId": "no UUID"}, 400),
    Case("POST", "/api/v1/ack/batch", [_ACKED],
         {"acknowledgments": [{**_ACK, "leaseId": "{lease}"}], "consumerGroup": None}),
    Case("POST", "/api/v1/ack/batch", ERROR, {}, 400),
    Case("POST", "/api/v1/lease/{long_lease}/extend", {
        "success": True, "leaseId": STR, "newExpiresAt": TIME, "lease_expires_at": TIME,
        "expiresAt": TIME,
    }),
    Case("POST", "/api/v1/lease/{nowhere}/extend", ERROR, status=404),
    Case("POST", "/api/v1/transaction", {
        "transactionId": STR, "success": True, "results": [{
            "index": INT, "type": "push", "success": True, "transactionId": STR, "messageId": UUID,
            "partitionId": UUID, "queueName": STR,
        }],
    }, {"operations": [{"type": "push", "items": [_PUSH]}]}),
    Case("POST", "/api/v1/transaction", {
        "transactionId": STR, "success": True, "results": [{
            "index": INT, "type": "ack", "success": True, "transactionId": STR,
            "error": Maybe(STR), "dlq": BOOL,
        }],
    }, {"operations": [{"type": "ack", "transactionId": "{second_id}", "consumerGroup": "{group}",
                        "partitionId": "{second_partition}", "leaseId": "{second_lease}"}]}),
    Case("POST", "/api/v1/transaction",
         {"transactionId": STR, "success": False, "error": STR, "results": Many(OBJECT)},
         {"operations": [{"type": "ack", "transactionId": "none", "partitionId": "{nowhere}"}]}),
    Case("POST", "/api/v1/transaction", ERROR, {"operations": []}, 400),
    Case("GET", "/api/v1/messages?queue={queue}", {"messages": [_LISTED], "mode": _MODE}),
    Case("GET", "/api/v1/messages/{partition}/{id}", {
        **_LISTED, "payload": ANY, "isEncrypted": BOOL, "errorMessage": Maybe(STR),
        "retryCount": Maybe(INT), "mode": {**_MODE, "consumedByGroups": ANY},
        "queueConfig": dict.fromkeys(
            ("leaseTime", "retryLimit", "retryDelay", "ttl", "priority"), INT),
        "consumerGroups": [{"name": STR, "consumed": BOOL, "leaseExpiresAt": Maybe(TIME)}],
    }),
    Case("GET", "/api/v1/messages/{nowhere}/none", ERROR, status=404),
    Case("DELETE", "/api/v1/messages/{partition}/{gone_id}",
         {"success": True, "partitionId": UUID, "transactionId": STR, "message": STR}),
    Case("POST", "/api/v1/messages/{partition}/{move_id}/dlq", OBJECT),
    Case("POST", "/api/v1/messages/{partition}/{dead_id}/retry", OBJECT),
    Case("GET", "/api/v1/dlq?queue={dead_queue}", {"messages": [{
        "id": UUID, "transactionId": STR, "partitionId": UUID, "queue": STR, "partition": STR,
        "consumerGroup": STR, "errorMessage": STR, "retryCount": INT, "data": ANY,
        "producerSub": Maybe(STR), "createdAt": TIME, "failedAt": TIME,
    }], "pagination": _PAGE, "total": INT}),
    Case("POST", "/api/v1/traces", {"success": True, "traceId": UUID},
         {"transactionId": "{id}", "partitionId": "{partition}", "data": 1}, 201),
    Case("POST", "/api/v1/traces", ERROR, {"transactionId": "{id}"}, 400),
    Case("POST", "/api/v1/traces", ERROR,
         {"transactionId": "none", "partitionId": "{nowhere}", "data": 1}, 404),
    Case("GET", "/api/v1/traces/{partition}/{traced_id}", {"traces": [_TRACE]}),
    Case("GET", "/api/v1/traces/by-name/{trace}", {"traces": [{
        **_TRACE, "transaction_id": STR, "partition_id": UUID, "queue_name": STR,
        "partition_name": STR, "message_payload": ANY,
    }], "total": INT, "pagination": _PAGE}),
    Case("GET", "/api/v1/traces/names", {"trace_names": [{
        "trace_name": STR, "trace_count": INT, "message_count": INT, "last_seen": TIME,
    }], "total": INT, "pagination": _PAGE}),
    Case("POST", "/streams/v1/queries", {
        "success": True, "query_id": UUID, "name": STR, "config_hash": STR, "fresh": True,
        "reset": False,
    }, {"name": "{fresh}", "source_queue": "{queue}", "config_hash": "a"}),
    Case("POST", "/streams/v1/queries",
         {"success": False, "query_id": UUID, "name": STR, "error": STR},
         {"name": "{stream}", "source_queue": "{queue}", "config_hash": "another"}, 409),
    Case("POST", "/streams/v1/queries", ERROR, {"name": ""}, 400),
    Case("POST", "/streams/v1/state/get",
         {"success": True, "rows": [{"key": STR, "value": ANY, "updated_at": TIME}]},
         {"query_id": "{query_id}", "partition_id": "{partition}", "keys": []}),
    Case("POST", "/streams/v1/state/get", ERROR, {}, 400),
    Case("POST", "/streams/v1/cycle", {
        "success": True, "query_id": UUID, "partition_id": UUID, "queueName": STR,
        "state_ops_applied": INT, "push_results": [QUEUED],
        "ack_result": {"success": True, "count": INT, "lease_released": BOOL, "dlq": BOOL},
    }, {"query_id": "{query_id}", "partition_id": "{partition}",
        "consumer_group": "streams.{stream}", "push_items": [{**_PUSH, "partition": "p"}],
        "state_ops": [{"type": "upsert", "key": "b", "value": 1}],
        "ack": {"transactionId": "{stream_id}", "leaseId": "{stream_lease}"}}),
    Case("POST", "/streams/v1/cycle", {"success": False, "error": STR},
         {"query_id": "{nowhere}", "partition_id": "{partition}"}),
    Case("POST", "/streams/v1/cycle", ERROR, {}, 400),
)  # fmt: skip
