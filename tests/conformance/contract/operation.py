"""Health, metrics, consumer groups, resources, status, analytics and the system."""

from __future__ import annotations

from tests.conformance.contract.case import ERROR, Case
from tests.support.shapes import ANY, BOOL, INT, NUM, OBJECT, STR, TIME, UUID, Keyed, Many, Maybe

_SIX = dict.fromkeys(("total", "pending", "processing", "completed", "failed", "deadLetter"), INT)
_SPAN = {"from": TIME, "to": TIME}
_PAGE = {"limit": INT, "offset": INT}
_QUEUE = {
    "id": UUID, "name": STR, "namespace": STR, "task": STR, "createdAt": TIME, "partitions": INT,
    "messages": {"total": INT, "pending": INT, "processing": INT},
}  # fmt: skip
_QUEUE_HEAD = {"id": UUID, "name": STR, "namespace": STR, "task": STR, "createdAt": TIME}
_LABEL = {"queues": INT, "partitions": INT, "messages": {"total": INT, "pending": INT}}
_SPREAD = dict.fromkeys(("avg", "median", "min", "max"), NUM)
_GAUGE = dict.fromkeys(("avg", "min", "max", "last"), NUM)
_GROUP = "/api/v1/consumer-groups/{group}"
_DONE = {"success": True, "consumerGroup": STR}
_FORGOTTEN = {**_DONE, "deletedPartitions": INT, "metadataDeleted": BOOL}
_PER_SECOND = dict.fromkeys(("pushPerSecond", "popPerSecond", "ackPerSecond"), NUM)

CASES = (
    Case("GET", "/health", {
        "status": "healthy", "database": "connected", "server": STR, "worker_id": INT,
        "version": STR, "shared_state": {"enabled": BOOL},
        "queen": {"worker_id": INT, "status": STR},
    }),
    Case("GET", "/metrics", {
        "uptime": NUM, "requests": {"total": NUM, "rate": NUM},
        "messages": {"total": NUM, "rate": NUM},
        "database": {"poolSize": INT, "idleConnections": INT, "waitingRequests": INT},
        "memory": dict.fromkeys(
            ("rss", "heapTotal", "heapUsed", "external", "arrayBuffers"), NUM),
        "cpu": {"user": NUM, "system": NUM},
    }),
    # Consumer groups.
    Case("GET", "/api/v1/consumer-groups", [{
        "name": STR, "topics": [STR], "queueName": STR, "members": INT, "partitionsWithLag": INT,
        "totalLag": Maybe(INT), "maxTimeLag": INT, "state": STR, "subscriptionMode": Maybe(STR),
        "subscriptionTimestamp": Maybe(TIME), "subscriptionCreatedAt": Maybe(TIME),
    }]),
    Case("GET", "/api/v1/consumer-groups/lagging?minLagSeconds=0", [{
        "consumer_group": STR, "queue_name": STR, "partition_name": STR, "partition_id": UUID,
        "worker_id": Maybe(STR), "offset_lag": INT, "time_lag_seconds": NUM, "lag_hours": NUM,
        "oldest_unconsumed_at": Maybe(TIME), "last_consumed_at": Maybe(TIME),
    }]),
    Case("GET", _GROUP, Keyed({"partitions": [{
        "partition": STR, "workerId": Maybe(STR), "lastConsumedAt": Maybe(TIME),
        "totalConsumed": INT, "offsetLag": INT, "timeLagSeconds": NUM, "leaseActive": BOOL,
    }]})),
    Case("GET", "/api/v1/consumer-groups/{fresh}", {}),
    Case("POST", _GROUP + "/subscription",
         {**_DONE, "newTimestamp": TIME, "rowsUpdated": INT},
         {"subscriptionTimestamp": "2030-01-31T12:00:00Z"}),
    Case("POST", _GROUP + "/subscription", ERROR, {}, 400),
    Case("POST", _GROUP + "/queues/{queue}/seek", {
        **_DONE, "queueName": STR, "seekToEnd": BOOL, "targetTimestamp": Maybe(TIME),
        "partitionsUpdated": INT,
    }, {"toEnd": True}),
    Case("POST", _GROUP + "/queues/{queue}/seek", ERROR, {}, 400),
    Case("POST", _GROUP + "/queues/{queue}/partitions/Default/seek", {
        **_DONE, "queueName": STR, "partitionName": STR, "updated": BOOL,
        "cursorMovedTo": Maybe(TIME),
    }),
    Case("POST", _GROUP + "/queues/{queue}/partitions/none/seek", ERROR, status=404),
    Case("DELETE", "/api/v1/consumer-groups/{fresh}/queues/{queue}",
         {**_FORGOTTEN, "queueName": STR}),
    Case("DELETE", "/api/v1/consumer-groups/{fresh}", _FORGOTTEN),
    Case("POST", "/api/v1/stats/refresh", OBJECT),
    # Resources.
    Case("GET", "/api/v1/resources/queues", {"queues": [_QUEUE]}),
    Case("GET", "/api/v1/resources/queues/{queue}", {
        **_QUEUE_HEAD, "partitions": [{
            "id": UUID, "name": STR, "createdAt": TIME, "stats": _SIX,
            "oldestMessage": Maybe(TIME), "newestMessage": Maybe(TIME),
        }], "totals": _SIX,
    }),
    Case("GET", "/api/v1/resources/queues/{fresh}-none", ERROR, status=404),
    Case("GET", "/api/v1/resources/namespaces", {"namespaces": [{"namespace": STR, **_LABEL}]}),
    Case("GET", "/api/v1/resources/tasks", {"tasks": [{"task": STR, **_LABEL}]}),
    Case("GET", "/api/v1/resources/overview", {
        "queues": INT, "partitions": INT, "namespaces": INT, "tasks": INT, "messages": _SIX,
        "lag": {"time": _SPREAD, "offset": _SPREAD},
        "throughput": {"ingestedPerSecond": NUM, "processedPerSecond": NUM},
        "timestamp": TIME, "statsAge": NUM,
    }),
    Case("GET", "/api/v1/resources/partitions", {"partitions": [OBJECT]}),
    Case("DELETE", "/api/v1/queues/{gone_queue}/clear", OBJECT),
    Case("DELETE", "/api/v1/resources/queues/{gone_queue}",
         {"deleted": True, "queue": STR, "existed": True}),
    Case("DELETE", "/api/v1/resources/queues/{fresh}-none",
         {"deleted": True, "queue": STR, "existed": False}),
    # Status.
    Case("GET", "/api/v1/status", {
        "timeRange": _SPAN, "bucketMinutes": 1, "pointCount": INT,
        "throughput": [{
            "timestamp": TIME, "ingested": INT, "processed": INT, "popMessages": INT,
            "ingestedPerSecond": NUM, "processedPerSecond": NUM, "popPerSecond": NUM,
            "avgLagMs": NUM, "maxLagMs": NUM, "avgEventLoopLagMs": NUM, "maxEventLoopLagMs": NUM,
            "minFreeSlots": NUM, "dbErrors": INT, "ackFailed": INT, "dlqCount": INT,
            "queenCpuUserPct": NUM, "queenCpuSysPct": NUM, "queenRssMb": NUM,
            "dbPoolActive": NUM, "dbPoolIdle": NUM, "dbPoolSize": NUM,
        }],
        "queues": [{
            "id": UUID, "name": STR, "namespace": STR, "task": STR, "partitions": INT,
            "totalConsumed": INT,
        }],
        "messages": {
            **_SIX, "requests": dict.fromkeys(("push", "pop", "ack"), INT),
            "batchEfficiency": dict.fromkeys(("push", "pop", "ack"), NUM),
        },
        "leases": dict.fromkeys(
            ("active", "partitionsWithLeases", "totalBatchSize", "totalAcked"), INT),
        "deadLetterQueue":
            {"totalMessages": INT, "affectedPartitions": INT, "topErrors": Many(OBJECT)},
        "workers": [{
            "hostname": STR, "workerId": INT, "avgEventLoopLagMs": NUM, "maxEventLoopLagMs": NUM,
            "freeSlots": NUM, "dbConnections": NUM, "jobQueueSize": NUM, "messagesProcessed": INT,
        }],
        "errors": {"dbErrors": INT, "ackFailed": INT, "dlqMessages": INT}, "statsAge": NUM,
    }),
    Case("GET", "/api/v1/status/queues", {"queues": [_QUEUE], "pagination": _PAGE}),
    Case("GET", "/api/v1/status/queues/{queue}", {
        "queue": {
            **_QUEUE_HEAD, "priority": INT, "config": {
                **dict.fromkeys(
                    ("leaseTime", "retryLimit", "retryDelay", "ttl", "maxQueueSize"), INT),
                "deadLetterQueue": BOOL,
            },
        },
        "partitions": [{
            "id": UUID, "name": STR, "createdAt": TIME, "messages": _SIX, "stats": _SIX,
            "cursor": {"totalConsumed": INT, "batchesConsumed": INT},
            "lastActivity": Maybe(TIME), "oldestMessage": Maybe(TIME),
            "newestMessage": Maybe(TIME),
        }],
        "totals": {"messages": _SIX, **_SIX},
    }),
    Case("GET", "/api/v1/status/queues/{queue}/messages", [{
        "id": UUID, "transactionId": STR, "partitionId": UUID, "queuePath": STR, "queue": STR,
        "partition": STR, "status": STR, "createdAt": TIME,
    }]),
    Case("GET", "/api/v1/status/analytics", {
        "dataPoints": [{"timestamp": TIME, "messages": INT}], "interval": STR, "from": TIME,
        "to": TIME,
    }),
    Case("GET", "/api/v1/status/buffers",
         {"pending": INT, "failed": INT, "dbHealthy": BOOL, "worker": ANY}),
    # Analytics.
    Case("GET", "/api/v1/analytics/system-metrics", {
        "timeRange": _SPAN, "replicaCount": INT, "bucketMinutes": INT, "pointCount": INT,
        "replicas": [{
            "hostname": STR, "port": INT, "workerId": INT, "timeSeries": [{
                "timestamp": TIME, "sampleCount": INT, "metrics": {
                    "cpu": {"user_us": _GAUGE, "system_us": _GAUGE},
                    "memory": {"rss_bytes": _GAUGE, "virtual_bytes": _GAUGE},
                    "database": {"pool_size": _GAUGE, "pool_idle": _GAUGE, "pool_active": _GAUGE},
                    "threadpool": {"db": OBJECT, "system": OBJECT}, "registries": OBJECT,
                    "shared_state": OBJECT,
                },
            }],
        }],
    }),
    Case("GET", "/api/v1/analytics/worker-metrics", {
        "timeRange": _SPAN, "bucketMinutes": INT, "pointCount": INT,
        "timeSeries": [{
            "timestamp": TIME, **_PER_SECOND, **dict.fromkeys((
                "pushMessages", "popMessages", "ackMessages", "pushRequests", "popRequests",
                "ackRequests", "jobsDone", "lagCount", "dbErrors", "ackSuccess", "ackFailed",
                "dlqCount"), INT),
            **dict.fromkeys((
                "avgEventLoopLagMs", "maxEventLoopLagMs", "avgFreeSlots", "minFreeSlots",
                "dbConnections", "avgJobQueueSize", "maxJobQueueSize", "backoffSize", "avgLagMs",
                "maxLagMs"), NUM),
        }],
        "workers": [OBJECT],
        "queues": [{"queueName": STR, "popCount": INT, "avgLagMs": NUM, "maxLagMs": NUM}],
        "summary": {"totalPushMessages": INT, "pendingMessages": INT},
    }),
    Case("GET", "/api/v1/analytics/queue-lag", [
        {"queueName": STR, "popCount": INT, "avgLagMs": NUM, "maxLagMs": NUM, "bucketTime": TIME}
    ]),
    Case("GET", "/api/v1/analytics/queue-ops", {
        "timeRange": _SPAN, "bucketMinutes": INT, "queues": [STR], "series": [{
            "bucket": TIME, "queueName": STR, **_PER_SECOND, "emptyPerSecond": NUM,
            **dict.fromkeys((
                "pushRequests", "pushMessages", "popMessages", "popEmpty", "ackRequests",
                "ackSuccess", "ackFailed", "transactions", "partitionsCreated",
                "partitionsDeleted", "partitionCount"), INT),
            "avgLagMs": NUM, "maxLagMs": NUM, "parkedCount": NUM,
        }],
    }),
    Case("GET", "/api/v1/analytics/queue-parked-replicas", {
        "series": [{
            "bucket": TIME, "queueName": STR, "hostname": STR, "workerId": INT, "parkedCount": NUM,
        }],
        "replicas": [{"hostname": STR, "workerId": INT}],
    }),
    Case("GET", "/api/v1/analytics/retention", {"totals": OBJECT, "series": Many({
        "bucket": TIME, **dict.fromkeys((
            "retentionMsgs", "completedRetentionMsgs", "evictionMsgs", "totalMsgs",
            "eventCount"), INT),
    })}),
    Case("GET", "/api/v1/analytics/postgres-stats", {
        "timestamp": TIME, "database": STR, "databaseCache": OBJECT, "tableCache": [OBJECT],
        "indexCache": [OBJECT], "cacheSummary": {"tables": ANY, "indexes": ANY},
        "deadTuples": [OBJECT], "hotUpdates": [OBJECT], "activeQueries": Many(OBJECT),
        "autovacuumStatus": [OBJECT], "bufferConfig": OBJECT, "bufferUsage": Many(OBJECT),
        "tableSizes": [OBJECT],
    }),
    # The system.
    Case("GET", "/api/v1/system/maintenance", {
        "maintenanceMode": BOOL, "popMaintenanceMode": BOOL, "bufferedMessages": INT,
        "bufferHealthy": BOOL, "bufferStats": {
            "pendingCount": INT, "failedCount": INT, "dbHealthy": BOOL, "failedFiles": {
                "count": INT, "totalBytes": INT, "totalMB": NUM, "failoverCount": INT,
                "qos0Count": INT,
            },
        },
    }),
    Case("POST", "/api/v1/system/maintenance", {
        "maintenanceMode": False, "bufferedMessages": INT, "bufferHealthy": BOOL, "message": STR,
    }, {"enabled": False}),
    Case("POST", "/api/v1/system/maintenance", ERROR, {"enabled": "yes"}, 400),
    Case("GET", "/api/v1/system/maintenance/pop", {"popMaintenanceMode": BOOL}),
    Case("POST", "/api/v1/system/maintenance/pop", {"popMaintenanceMode": False, "message": STR},
         {"enabled": False}),
    Case("GET", "/api/v1/system/shared-state", OBJECT),
    Case("GET", "/api/v1/migration/status", OBJECT),
    Case("POST", "/api/v1/migration/reset", OBJECT),
    Case("POST", "/api/v1/migration/test-connection", {"success": False, "error": STR},
         {"host": "127.0.0.1", "port": "1", "database": "d", "user": "u", "password": "p"}),
)  # fmt: skip
