// Made from the OpenAPI document by: python -m tests.support.dashboard_types
export interface AckBatchRequest {
  "acknowledgments": (AckItem)[];
  "consumerGroup": string | null;
  "next": string | null;
}
export interface AckItem {
  "transactionId": string;
  "partitionId": string;
  "leaseId": string | null;
  "status": string | null;
  "error": string | null;
}
export interface AckOutcome {
  "success": true;
  "count": number;
  "lease_released": boolean;
  "dlq": boolean;
}
export interface AckRequest {
  "transactionId": string;
  "partitionId": string;
  "leaseId": string | null;
  "status": string | null;
  "error": string | null;
  "consumerGroup": string | null;
}
export interface AckResult {
  "index": number;
  "transactionId": string;
  "success": boolean;
  "error": string | null;
  "queueName": string | null;
  "partitionName": string | null;
  "leaseReleased": boolean;
  "dlq": boolean;
}
export interface AckedAndPopped {
  "results": (AckResult)[];
  "next": PopAnswer | null;
}
export interface ActiveQuery {
  "pid": number;
  "application": string;
  "state": string;
  "waitType": string;
  "waitEvent": string;
  "seconds": number | null;
  "query": string;
}
export interface Analytics {
  "dataPoints": (DataPoint)[];
  "interval": string;
  "from": string;
  "to": string;
  "isCut": boolean;
}
export interface ArchiveCoverage {
  "queues": (ArchivedQueue)[];
  "days": (ArchivedDay)[];
}
export interface ArchivedDay {
  "day": string;
  "pushed": number;
  "archived": number;
}
export interface ArchivedQueue {
  "queue": string;
  "lake": string;
  "location": string;
  "waitingSince": string | null;
  "updatedAt": string;
}
export interface AsideCounts {
  "records": number;
  "bytes": number;
}
export interface AsideList {
  "records": (AsideRecord)[];
  "total": number;
  "bytes": number;
  "pagination": Pagination;
}
export interface AsideRecord {
  "id": string;
  "queues": (string)[];
  "partitions": (string)[];
  "itemCount": number | null;
  "size": number;
  "reason": string;
  "setAsideAt": string | null;
  "isReadable": boolean;
  "file": string | null;
}
export interface AuditEntry {
  "id": number;
  "at": string | null;
  "who": string | null;
  "how": string;
  "role": string | null;
  "action": string;
  "target": string | null;
  "details": unknown;
  "address": string | null;
  "status": number;
}
export interface AuditLog {
  "entries": (AuditEntry)[];
  "pagination": Pagination;
}
export interface AutovacuumState {
  "table": string;
  "isAutovacuumed": boolean;
  "vacuums": number;
  "vacuumAtDeadRows": number;
  "lastVacuum": string | null;
  "xidAge": number;
}
export interface BrokerMemory {
  "enabled": boolean;
  "partitionsRemembered": number;
  "maintenanceMode": boolean;
  "popMaintenanceMode": boolean;
  "isListening": boolean;
  "database": string | null;
}
export interface BrokerState {
  "waitingPops": number;
  "bufferedPushes": number;
  "maintenanceMode": boolean;
  "popMaintenanceMode": boolean;
}
export interface BufferState {
  "pendingCount": number;
  "failedCount": number;
  "dbHealthy": boolean;
  "failedFiles": FailedFiles;
}
export interface Buffers {
  "pending": number;
  "failed": number;
  "dbHealthy": boolean;
  "worker": string;
}
export interface CacheSummary {
  "tables": CacheUse;
  "indexes": CacheUse;
}
export interface CacheUse {
  "blocksHit": number;
  "blocksRead": number;
  "hitRatio": number | null;
}
export interface CallQueue {
  "queue_size": Gauge;
}
export interface CallQueues {
  "db": CallQueue;
  "system": CallQueue;
}
export interface CapabilityState {
  "status": string;
  "reason": string | null;
}
export interface ConfigureRequest {
  "queue": string;
  "namespace": string | null;
  "task": string | null;
  "options": QueueOptions | null;
}
export interface ConsumerGroup {
  "name": string;
  "topics": (string)[];
  "queueName": string;
  "members": number;
  "partitionsWithLag": number | null;
  "totalLag": number;
  "maxTimeLag": number;
  "state": string;
  "subscriptionMode": string | null;
  "subscriptionTimestamp": string | null;
  "subscriptionCreatedAt": string | null;
  "kind": string;
  "updatedAt": string | null;
  "isPaused": boolean;
}
export interface Counters {
  "total": number;
  "pending": number;
  "processing": number;
  "completed": number;
  "failed": number;
  "deadLetter": number;
}
export interface CpuGauges {
  "user_us": Gauge;
  "system_us": Gauge;
}
export interface CursorCounts {
  "totalConsumed": number;
  "batchesConsumed": number;
}
export interface CycleAck {
  "transactionId": string;
  "leaseId": string | null;
  "status": string | null;
  "count": number;
  "error": string | null;
}
export interface CycleCommitted {
  "success": true;
  "query_id": string;
  "partition_id": string;
  "queueName": string | null;
  "state_ops_applied": number;
  "push_results": (PushQueued | PushDuplicate | PushRefused | PushBuffered)[];
  "ack_result": AckOutcome | null;
}
export interface CycleRefused {
  "success": false;
  "query_id": string;
  "partition_id": string;
  "error": string;
}
export interface CycleRequest {
  "query_id": string;
  "partition_id": string;
  "consumer_group": string | null;
  "state_ops": (StateOp)[] | null;
  "push_items": (PushItem)[] | null;
  "ack": CycleAck | null;
  "release_lease": boolean;
  "state_version": number | null;
}
export interface DataPoint {
  "timestamp": string;
  "messages": number;
}
export interface DatabaseCache {
  "blocksHit": number;
  "blocksRead": number;
  "hitRatio": number | null;
  "commits": number;
  "rollbacks": number;
  "deadlocks": number;
  "tempBytes": number;
  "bytes": number;
}
export interface DeadLetterCounts {
  "totalMessages": number;
  "affectedPartitions": number;
  "topErrors": (ErrorCount)[];
}
export interface DeadLetterError {
  "queue": string;
  "consumerGroup": string;
  "error": string;
  "count": number;
  "firstFailedAt": string;
  "lastFailedAt": string;
}
export interface DeadLetterErrors {
  "errors": (DeadLetterError)[];
  "isCut": boolean;
}
export interface DeadLetterList {
  "messages": (StoredDeadLetter)[];
  "total": number;
  "pagination": Pagination;
}
export interface DeadLetterRequest {
  "error": string | null;
}
export interface DeadLetterRetryRequest {
  "queue": string | null;
  "consumerGroup": string | null;
  "partition": string | null;
  "olderThanSeconds": number | null;
  "error": string | null;
  "limit": number;
}
export interface DeadLettersPurged {
  "success": boolean;
  "purged": number;
  "remaining": boolean;
}
export interface DeadLettersRetried {
  "success": boolean;
  "retried": number;
  "pushed": number;
  "refused": number;
  "remaining": boolean;
}
export interface DeadTuples {
  "table": string;
  "liveRows": number;
  "deadRows": number;
  "lastVacuum": string | null;
}
export interface Diagnosis {
  "queue": string;
  "partition": string | null;
  "consumerGroup": string;
  "summary": string;
  "findings": (Finding)[];
  "backlog": number;
  "oldestMessage": string | null;
  "partitionCounts": PartitionsByState;
  "partitions": (StuckPartition)[];
  "operations": WaitingOperations;
  "broker": BrokerState;
  "groups": (string)[];
  "timestamp": string;
}
export interface ErrorAnswer {
  "error": string;
  "code": string;
  "depth": number | null;
  "retryAfter": number | null;
  "errorId": string | null;
}
export interface ErrorCount {
  "error": string | null;
  "count": number;
}
export interface ErrorCounts {
  "dbErrors": number;
  "ackFailed": number;
  "dlqMessages": number;
}
export interface FailedFiles {
  "count": number;
  "totalBytes": number;
  "totalMB": number;
  "failoverCount": number;
  "qos0Count": number;
}
export interface Finding {
  "code": string;
  "message": string;
  "action": string;
  "partitions": (string)[];
}
export interface Gauge {
  "avg": number;
  "min": number;
  "max": number;
  "last": number;
}
export interface GaugePoint {
  "timestamp": string;
  "sampleCount": number;
  "metrics": WorkerGauges;
}
export interface GroupCounts {
  "consumedBy": number;
  "totalGroups": number;
}
export interface GroupDeleted {
  "success": boolean;
  "consumerGroup": string;
  "queueName": string | null;
  "deletedPartitions": number;
  "deletedStreams": number | null;
  "metadataDeleted": boolean;
}
export interface GroupLag {
  "timeRange": TimeRange;
  "bucketMinutes": number;
  "series": (GroupLagPoint)[];
}
export interface GroupLagPoint {
  "bucket": string;
  "queueName": string;
  "consumerGroup": string;
  "kind": string;
  "lag": number;
  "maxLag": number;
  "maxTimeLag": number;
}
export interface GroupMoved {
  "success": boolean;
  "consumerGroup": string;
  "queueName": string;
  "seekToEnd": boolean;
  "targetTimestamp": string | null;
  "partitionsUpdated": number;
}
export interface GroupMovedInPartition {
  "success": boolean;
  "consumerGroup": string;
  "queueName": string;
  "partitionName": string;
  "updated": boolean;
  "cursorMovedTo": string | null;
  "nextSeq": number | null;
}
export interface GroupPartition {
  "partition": string;
  "workerId": string | null;
  "lastConsumedAt": string | null;
  "totalConsumed": number;
  "offsetLag": number;
  "timeLagSeconds": number;
  "leaseActive": boolean;
}
export interface GroupPartitions {
  "partitions": (GroupPartition)[];
  "total": number;
  "pagination": Pagination;
}
export interface GroupPaused {
  "success": boolean;
  "consumerGroup": string;
  "isPaused": boolean;
}
export interface GroupQueue {
  "partitions": (GroupPartition)[];
  "streams": (GroupStream)[] | null;
}
export interface GroupStartChanged {
  "success": boolean;
  "consumerGroup": string;
  "newTimestamp": string;
  "rowsUpdated": number;
}
export interface GroupStartRequest {
  "subscriptionTimestamp": string;
}
export interface GroupStream {
  "queryId": string;
  "position": string | number;
  "offsetLag": number;
  "timeLagSeconds": number;
  "updatedAt": string;
}
export interface Health {
  "status": string;
  "database": string;
  "capabilities": Record<string, CapabilityState>;
  "problems": (string)[];
  "spool": SpoolState;
  "server": string;
  "worker_id": number;
  "version": string;
  "shared_state": SharedState;
  "queen": WorkerState;
  "error": string | null;
  "services": Record<string, string>;
}
export interface HotUpdates {
  "table": string;
  "updates": number;
  "hotUpdates": number;
}
export interface IndexCache {
  "blocksHit": number;
  "blocksRead": number;
  "hitRatio": number | null;
  "table": string;
  "index": string;
}
export interface JobRun {
  "run": string;
  "job": string;
  "options": Record<string, unknown>;
  "startedAt": string;
  "finishedAt": string | null;
  "outcome": string;
  "figures": Record<string, unknown>;
  "error": string | null;
}
export interface JobRunDetail {
  "run": string;
  "job": string;
  "options": Record<string, unknown>;
  "startedAt": string;
  "finishedAt": string | null;
  "outcome": string;
  "figures": Record<string, unknown>;
  "error": string | null;
  "tables": Record<string, JobTable>;
}
export interface JobRunList {
  "runs": (JobRun)[];
  "pagination": Pagination;
}
export interface JobTable {
  "columns": (string)[];
  "rows": ((unknown)[])[];
  "total": number;
}
export interface KindCounts {
  "push": number;
  "pop": number;
  "ack": number;
}
export interface Lag {
  "time": LagSpread;
  "offset": LagSpread;
}
export interface LagSpread {
  "avg": number;
  "median": number;
  "min": number;
  "max": number;
}
export interface LaggingPartition {
  "consumer_group": string;
  "queue_name": string;
  "partition_name": string | null;
  "partition_id": string | null;
  "worker_id": string | null;
  "offset_lag": number;
  "time_lag_seconds": number;
  "lag_hours": number;
  "oldest_unconsumed_at": string | null;
  "last_consumed_at": string | null;
  "kind": string;
}
export interface LeaseCounts {
  "active": number;
  "partitionsWithLeases": number;
  "totalBatchSize": number;
  "totalAcked": number;
}
export interface LeaseEnded {
  "success": boolean;
  "consumerGroup": string;
  "queueName": string;
  "partitionName": string;
  "ended": boolean;
  "wouldHaveEndedAt": string | null;
}
export interface LeaseExtended {
  "success": boolean;
  "leaseId": string;
  "newExpiresAt": string;
  "lease_expires_at": string;
  "expiresAt": string;
}
export interface Live {
  "status": string;
}
export interface LoggedOut {
  "success": boolean;
}
export interface LoginRequest {
  "token": string | null;
}
export interface MaintenanceState {
  "maintenanceMode": boolean;
  "popMaintenanceMode": boolean;
  "bufferedMessages": number;
  "bufferHealthy": boolean;
  "bufferStats": BufferState;
}
export interface MaintenanceSwitched {
  "maintenanceMode": boolean;
  "bufferedMessages": number;
  "bufferHealthy": boolean;
  "message": string;
}
export interface Me {
  "subject": string | null;
  "kind": string;
  "role": string | null;
  "queues": (string)[] | null;
  "verbs": (string)[] | null;
  "expiresAt": string | null;
  "csrfToken": string | null;
}
export interface Memory {
  "rss": number;
  "heapTotal": number;
  "heapUsed": number;
  "external": number;
  "arrayBuffers": number;
}
export interface MemoryGauges {
  "rss_bytes": Gauge;
  "virtual_bytes": Gauge;
}
export interface MessageCounts {
  "total": number;
  "pending": number;
  "processing": number;
}
export interface MessageDeadLettered {
  "success": boolean;
  "partitionId": string;
  "transactionId": string;
  "message": string;
  "consumerGroups": (string)[];
}
export interface MessageDeleted {
  "success": boolean;
  "partitionId": string;
  "transactionId": string;
  "message": string;
}
export interface MessageDeliveries {
  "isKept": boolean;
  "keptSince": string | null;
  "isCut": boolean;
  "deliveries": (MessageDelivery)[];
}
export interface MessageDelivery {
  "consumerGroup": string;
  "deliveredAt": string | null;
  "passedAt": string | null;
  "cause": string;
  "retries": number;
  "hasDeadLetter": boolean;
}
export interface MessageDetail {
  "id": string;
  "transactionId": string;
  "partitionId": string;
  "queuePath": string;
  "queue": string;
  "partition": string;
  "namespace": string | null;
  "task": string | null;
  "status": string;
  "queueStatus": string | null;
  "busStatus": GroupCounts;
  "traceId": string | null;
  "producerSub": string | null;
  "queuePriority": number;
  "createdAt": string;
  "leaseExpiresAt": string | null;
  "seq": number | null;
  "payload": unknown;
  "isEncrypted": boolean;
  "errorMessage": string | null;
  "retryCount": number;
  "queueConfig": MessageQueueConfig;
  "mode": Mode;
  "consumerGroups": (MessageGroup)[];
  "decryptionError": string | null;
}
export interface MessageGroup {
  "name": string;
  "consumed": boolean;
  "leaseExpiresAt": string | null;
}
export interface MessageHead {
  "id": string;
  "transactionId": string;
  "partitionId": string;
  "queuePath": string;
  "queue": string;
  "partition": string;
  "status": string;
  "createdAt": string;
}
export interface MessageList {
  "messages": (MessageSummary)[];
  "mode": Mode;
  "pagination": Pagination;
  "isCut": boolean;
}
export interface MessageQueueConfig {
  "leaseTime": number;
  "retryLimit": number;
  "retryDelay": number;
  "ttl": number;
  "priority": number;
}
export interface MessageRetried {
  "success": boolean;
  "partitionId": string;
  "transactionId": string;
  "message": string;
  "newMessageId": string | null;
  "newTransactionId": string | null;
  "operationId": string | null;
}
export interface MessageSummary {
  "id": string;
  "transactionId": string;
  "partitionId": string;
  "queuePath": string;
  "queue": string;
  "partition": string;
  "namespace": string | null;
  "task": string | null;
  "status": string;
  "queueStatus": string | null;
  "busStatus": GroupCounts;
  "traceId": string | null;
  "producerSub": string | null;
  "queuePriority": number;
  "createdAt": string;
  "leaseExpiresAt": string | null;
  "seq": number | null;
}
export interface Metrics {
  "uptime": number;
  "requests": Rate;
  "messages": Rate;
  "database": PoolUse;
  "memory": Memory;
  "cpu": ProcessorTime;
}
export interface MigrationReset {
  "success": boolean;
  "message": string;
}
export interface MigrationStarted {
  "success": boolean;
  "message": string;
}
export interface MigrationStatus {
  "status": string;
  "phase": string | null;
  "table": string | null;
  "tablesDone": number;
  "tables": number;
  "bytesCopied": number;
  "error": string | null;
  "startedAt": string | null;
  "updatedAt": string | null;
}
export interface MigrationTarget {
  "host": string;
  "database": string;
  "user": string;
  "port": string | number;
  "password": string;
  "ssl": boolean;
}
export interface MigrationValidated {
  "success": boolean;
  "allMatch": boolean;
  "tables": (TableCompared)[];
}
export interface Mode {
  "hasQueueMode": boolean;
  "busGroupsCount": number;
  "type": string;
  "consumedByGroups": (string)[] | null;
}
export interface NamedTrace {
  "id": string;
  "event_type": string;
  "data": unknown;
  "consumer_group": string;
  "worker_id": string | null;
  "created_at": string;
  "trace_names": (string)[];
  "transaction_id": string;
  "partition_id": string;
  "queue_name": string;
  "partition_name": string;
  "message_payload": unknown;
}
export interface NamedTraceList {
  "traces": (NamedTrace)[];
  "total": number;
  "pagination": Pagination;
}
export interface Namespace {
  "namespace": string;
  "queues": number;
  "partitions": number;
  "messages": PendingCounts;
}
export interface NamespaceList {
  "namespaces": (Namespace)[];
}
export interface NewToken {
  "id": string;
  "kind": string;
  "name": string;
  "shown": string;
  "subject": string | null;
  "role": string;
  "queues": (string)[] | null;
  "verbs": (string)[] | null;
  "state": string;
  "createdAt": string | null;
  "createdBy": string | null;
  "expiresAt": string | null;
  "lastUsedAt": string | null;
  "revokedAt": string | null;
  "token": string;
}
export interface Operation {
  "id": string;
  "type": string;
  "queue": string;
  "partition": string;
  "seq": number;
  "priority": number;
  "itemCount": number;
  "size": number;
  "reason": string | null;
  "status": string;
  "isBlocking": boolean;
  "createdAt": string;
  "processingStartedAt": string | null;
  "processedAt": string | null;
  "claimedBy": string | null;
  "timeoutSeconds": number;
  "retryCount": number;
  "maxRetries": number;
  "error": string | null;
  "lastErrorAt": string | null;
  "result": unknown;
  "latency_seconds": number | null;
}
export interface OperationCounts {
  "operations": number;
  "items": number;
  "bytes": number;
  "oldestAgeSeconds": number | null;
}
export interface OperationDecided {
  "id": string;
  "status": string;
}
export interface OperationList {
  "operations": (Operation)[];
  "total": number;
  "pagination": Pagination;
}
export interface OperationStats {
  "depth": number;
  "oldestAgeSeconds": number | null;
  "drainRate": number | null;
  "latency_seconds": number | null;
  "pressure": number;
  "systemHealth": string;
  "aside": AsideCounts;
  "byStatus": Record<string, OperationCounts>;
}
export interface OperationsRetried {
  "operations": number;
  "retried": number;
  "unreadable": number;
  "remaining": number;
  "error": string | null;
}
export interface OverallDiagnosis {
  "summary": string;
  "isWell": boolean;
  "isComplete": boolean;
  "troubles": (Trouble)[];
  "timestamp": string;
}
export interface Overview {
  "queues": number;
  "partitions": number;
  "namespaces": number;
  "tasks": number;
  "messages": Counters;
  "lag": Lag;
  "throughput": Throughput;
  "timestamp": string;
  "statsAge": number;
}
export interface OverviewRefresh {
  "refreshed": boolean;
  "durationMs": number;
}
export interface Pagination {
  "limit": number;
  "offset": number;
}
export interface ParkedPoint {
  "bucket": string;
  "queueName": string;
  "hostname": string;
  "workerId": number;
  "parkedCount": number;
}
export interface ParkedPops {
  "timeRange": TimeRange;
  "series": (ParkedPoint)[];
  "replicas": (Replica)[];
}
export interface Partition {
  "id": string;
  "name": string;
  "createdAt": string;
  "stats": Counters;
  "oldestMessage": string | null;
  "newestMessage": string | null;
}
export interface PartitionCursor {
  "consumerGroup": string;
  "cursorSeq": number;
  "lag": number;
  "totalConsumed": number;
  "lastConsumedAt": string | null;
  "leasedUntil": string | null;
  "leasedAt": string | null;
  "leaseEndSeq": number | null;
  "retryCount": number;
  "retrySeq": number | null;
  "retryAt": string | null;
  "retryError": string | null;
  "expiredLeases": number;
  "blockedSeq": number | null;
}
export interface PartitionDeleted {
  "deleted": boolean;
  "queue": string;
  "partition": string;
}
export interface PartitionDetail {
  "id": string;
  "queue": string;
  "name": string;
  "createdAt": string;
  "firstSeq": number;
  "lastSeq": number;
  "newestMessage": string | null;
  "groups": (PartitionCursor)[];
}
export interface PartitionList {
  "partitions": (PartitionSummary)[];
  "pagination": Pagination;
}
export interface PartitionRow {
  "id": string;
  "name": string;
  "createdAt": string;
  "firstSeq": number;
  "lastSeq": number;
  "newestMessage": string | null;
  "groups": number;
  "leased": number;
  "blocked": number;
  "lag": number;
}
export interface PartitionStatus {
  "id": string;
  "name": string;
  "createdAt": string;
  "messages": Counters;
  "stats": Counters;
  "cursor": CursorCounts;
  "lastActivity": string | null;
  "oldestMessage": string | null;
  "newestMessage": string | null;
}
export interface PartitionSummary {
  "id": string;
  "name": string;
  "queue": string;
  "namespace": string | null;
  "task": string | null;
  "createdAt": string;
  "messages": PartitionTotal;
  "newestMessage": string | null;
}
export interface PartitionTotal {
  "total": number;
}
export interface PartitionsByState {
  "all": number;
  "behind": number;
  "ready": number;
  "leased": number;
  "waiting": number;
  "blocked": number;
}
export interface PendingCounts {
  "total": number;
  "pending": number;
}
export interface PipelineRun {
  "run": string;
  "scope": Record<string, unknown>;
  "from": string;
  "to": string;
  "bucketSeconds": number;
  "messages": number;
  "finishedAt": string;
}
export interface PipelineRunList {
  "runs": (PipelineRun)[];
  "tables": (string)[];
}
export interface PipelineTable {
  "run": PipelineRun;
  "table": string;
  "rows": (Record<string, unknown>)[];
  "pagination": Pagination;
}
export interface PoolGauges {
  "pool_size": Gauge;
  "pool_idle": Gauge;
  "pool_active": Gauge;
}
export interface PoolUse {
  "poolSize": number;
  "idleConnections": number;
  "waitingRequests": number;
}
export interface PopAnswer {
  "success": boolean;
  "queue": string;
  "partition": string;
  "partitionId": string;
  "leaseId": string;
  "consumerGroup": string;
  "partitionsClaimed": number;
  "messages": (PoppedMessage)[];
  "leaseExpiresAt": string | null;
}
export interface PopMaintenance {
  "popMaintenanceMode": boolean;
  "message": string;
}
export interface PoppedMessage {
  "id": string;
  "transactionId": string;
  "data": unknown;
  "partitionId": string;
  "queue": string;
  "partition": string;
  "leaseId": string;
  "consumerGroup": string;
  "traceId": string | null;
  "createdAt": string;
  "retryCount": number;
  "producerSub": string | null;
}
export interface PostgresStats {
  "timestamp": string;
  "database": string;
  "databaseCache": DatabaseCache;
  "tableCache": (TableCache)[];
  "indexCache": (IndexCache)[];
  "cacheSummary": CacheSummary;
  "deadTuples": (DeadTuples)[];
  "hotUpdates": (HotUpdates)[];
  "activeQueries": (ActiveQuery)[];
  "autovacuumStatus": (AutovacuumState)[];
  "bufferConfig": Record<string, string>;
  "bufferUsage": (unknown)[];
  "tableSizes": (TableSize)[];
  "xminHolders": (XminHolder)[];
  "slowStatements": (SlowStatement)[] | null;
}
export interface ProcessorTime {
  "user": number;
  "system": number;
}
export interface PushBuffered {
  "index": number;
  "status": "buffered";
  "queue": string;
  "partition": string;
  "transactionId": string | null;
  "operationId": string | null;
  "queuePosition": number | null;
  "estimatedWait": string | null;
  "reason": string | null;
}
export interface PushDuplicate {
  "index": number;
  "transaction_id": string;
  "status": "duplicate";
  "message_id": string;
  "partition_id": string;
  "queueName": string;
}
export interface PushItem {
  "queue": string;
  "partition": string | null;
  "payload": unknown;
  "transactionId": string | null;
  "traceId": string | null;
}
export interface PushQueued {
  "index": number;
  "transaction_id": string;
  "status": "queued";
  "message_id": string;
  "partition_id": string;
  "trace_id": string | null;
  "queueName": string;
}
export interface PushRefused {
  "index": number;
  "transaction_id": string | null;
  "status": "failed";
  "error": string;
  "queueName": string;
}
export interface PushRequest {
  "items": (PushItem)[];
  "idempotencyKey": string | null;
}
export interface QueueCleared {
  "success": boolean;
  "queue": string;
  "partition": string | null;
  "messagesDeleted": number;
}
export interface QueueConfig {
  "leaseTime": number;
  "retryLimit": number;
  "retryDelay": number;
  "ttl": number;
  "maxQueueSize": number;
  "deadLetterQueue": boolean;
}
export interface QueueConfigured {
  "configured": boolean;
  "queueId": string;
  "partitionId": string;
  "queue": string;
  "namespace": string;
  "task": string;
  "options": QueueOptions;
  "ignored": (string)[];
}
export interface QueueConsumption {
  "id": string;
  "name": string;
  "namespace": string | null;
  "task": string | null;
  "partitions": number;
  "totalConsumed": number;
}
export interface QueueDeleted {
  "deleted": boolean;
  "queue": string;
  "existed": boolean;
}
export interface QueueDetail {
  "id": string;
  "name": string;
  "namespace": string | null;
  "task": string | null;
  "createdAt": string;
  "options": QueueOptions;
  "partitions": (Partition)[];
  "totals": Counters;
}
export interface QueueLagPoint {
  "queueName": string;
  "popCount": number;
  "avgLagMs": number;
  "maxLagMs": number;
  "bucketTime": string;
}
export interface QueueList {
  "queues": (QueueSummary)[];
}
export interface QueueOps {
  "timeRange": TimeRange;
  "bucketMinutes": number;
  "series": (QueueOpsPoint)[];
  "queues": (string)[];
}
export interface QueueOpsPoint {
  "bucket": string;
  "queueName": string;
  "pushRequests": number;
  "pushMessages": number;
  "pushBytes": number;
  "duplicates": number;
  "popMessages": number;
  "popEmpty": number;
  "ackRequests": number;
  "ackSuccess": number;
  "ackFailed": number;
  "retried": number;
  "dlqCount": number;
  "transactions": number;
  "partitionsCreated": number;
  "partitionsDeleted": number;
  "partitionCount": number;
  "avgLagMs": number;
  "maxLagMs": number;
  "pushPerSecond": number;
  "popPerSecond": number;
  "ackPerSecond": number;
  "emptyPerSecond": number;
  "parkedCount": number;
}
export interface QueueOptions {
  "leaseTime": number;
  "retryLimit": number;
  "retryDelay": number;
  "priority": number;
  "maxSize": number;
  "ttl": number;
  "deadLetterQueue": boolean;
  "dlqAfterMaxRetries": boolean;
  "delayedProcessing": number;
  "windowBuffer": number;
  "retentionSeconds": number;
  "completedRetentionSeconds": number;
  "retentionEnabled": boolean;
  "encryptionEnabled": boolean;
  "maxWaitTimeSeconds": number;
  "onPoison": "block" | "dlq" | "skip";
  "onFailedOperation": "continue" | "stop";
  "archiveBeforeDelete": boolean;
  "ackHistory": boolean;
  "partitionIdleSeconds": number;
}
export interface QueuePartitions {
  "partitions": (PartitionRow)[];
  "total": number;
  "isCut": boolean;
  "pagination": Pagination;
}
export interface QueueShare {
  "queueName": string;
  "popCount": number;
  "avgLagMs": number;
  "maxLagMs": number;
}
export interface QueueStatsList {
  "queues": (QueueSummary)[];
  "pagination": Pagination;
}
export interface QueueStatus {
  "queue": QueueWithConfig;
  "partitions": (PartitionStatus)[];
  "totals": QueueTotals;
  "pagination": Pagination;
}
export interface QueueSummary {
  "id": string;
  "name": string;
  "namespace": string | null;
  "task": string | null;
  "createdAt": string;
  "partitions": number;
  "messages": MessageCounts;
}
export interface QueueTotals {
  "messages": Counters;
  "total": number;
  "pending": number;
  "processing": number;
  "completed": number;
  "failed": number;
  "deadLetter": number;
  "partitions": number;
}
export interface QueueWithConfig {
  "id": string;
  "name": string;
  "namespace": string | null;
  "task": string | null;
  "priority": number;
  "createdAt": string;
  "config": QueueConfig;
}
export interface Rate {
  "total": number;
  "rate": number;
}
export interface RegisterRefused {
  "success": false;
  "query_id": string;
  "name": string;
  "error": string;
  "code": string;
}
export interface RegisterRequest {
  "name": string;
  "source_queue": string;
  "config_hash": string;
  "sink_queue": string | null;
  "reset": boolean;
}
export interface Registered {
  "success": true;
  "query_id": string;
  "name": string;
  "config_hash": string;
  "fresh": boolean;
  "reset": boolean;
}
export interface RenewRequest {
  "seconds": number;
}
export interface Replica {
  "hostname": string;
  "workerId": number;
}
export interface ReplicaGauges {
  "hostname": string;
  "port": number;
  "workerId": number;
  "timeSeries": (GaugePoint)[];
}
export interface RetentionHistory {
  "timeRange": TimeRange;
  "bucketMinutes": number;
  "series": (RetentionPoint)[];
  "totals": RetentionTotals;
}
export interface RetentionPoint {
  "bucket": string;
  "retentionMsgs": number;
  "completedRetentionMsgs": number;
  "evictionMsgs": number;
  "totalMsgs": number;
  "eventCount": number;
  "partitionsRemoved": number;
}
export interface RetentionTotals {
  "retentionMsgs": number;
  "completedRetentionMsgs": number;
  "evictionMsgs": number;
  "totalMsgs": number;
  "eventCount": number;
  "partitionsRemoved": number;
}
export interface SeekPreview {
  "consumerGroup": string;
  "queueName": string;
  "partitions": number;
  "messagesAgain": number;
  "messagesSkipped": number;
}
export interface SeekRequest {
  "toEnd": boolean;
  "timestamp": string | null;
  "seq": number | null;
}
export interface Setting {
  "name": string;
  "value": string | number | boolean | null;
  "isHidden": boolean;
  "origin": string;
  "description": string;
}
export interface SettingList {
  "settings": (Setting)[];
}
export interface SharedState {
  "enabled": boolean;
}
export interface SlowStatement {
  "query": string;
  "calls": number;
  "totalMs": number;
  "meanMs": number;
  "maxMs": number;
  "rows": number;
}
export interface SpoolState {
  "pending": number;
  "pendingBytes": number;
  "setAside": number;
}
export interface StateFound {
  "success": true;
  "rows": (StateRow)[];
  "version": number;
}
export interface StateMissing {
  "success": false;
  "rows": (StateRow)[];
  "error": string;
}
export interface StateOp {
  "type": string;
  "key": string;
  "value": unknown;
}
export interface StateRequest {
  "query_id": string;
  "partition_id": string;
  "keys": (string)[] | null;
  "key_prefix": string | null;
  "ripe_at_or_before": number | null;
}
export interface StateRow {
  "key": string;
  "value": unknown;
  "updated_at": string;
}
export interface StatsRefreshed {
  "success": boolean;
  "overview": OverviewRefresh;
}
export interface Status {
  "timeRange": TimeRange;
  "bucketMinutes": number;
  "pointCount": number;
  "throughput": (ThroughputPoint)[];
  "isCut": boolean;
  "queues": (QueueConsumption)[];
  "messages": StatusCounters;
  "leases": LeaseCounts;
  "deadLetterQueue": DeadLetterCounts;
  "workers": (Worker)[];
  "errors": ErrorCounts;
  "statsAge": number;
}
export interface StatusCounters {
  "total": number;
  "pending": number;
  "processing": number;
  "completed": number;
  "failed": number;
  "deadLetter": number;
  "requests": KindCounts;
  "batchEfficiency": KindCounts;
}
export interface StoredDeadLetter {
  "id": string;
  "transactionId": string;
  "partitionId": string;
  "queue": string;
  "partition": string;
  "consumerGroup": string;
  "errorMessage": string | null;
  "retryCount": number;
  "data": unknown;
  "producerSub": string | null;
  "createdAt": string;
  "failedAt": string | null;
  "isEncrypted": boolean;
  "decryptionError": string | null;
}
export interface StreamDeleted {
  "success": true;
  "name": string;
  "consumerGroups": (string)[];
}
export interface StreamQueries {
  "streams": (StreamQuery)[];
  "isCut": boolean;
}
export interface StreamQuery {
  "id": string;
  "name": string;
  "sourceQueue": string;
  "sinkQueue": string | null;
  "configHash": string;
  "consumerGroup": string | null;
  "partitions": number;
  "cycles": number;
  "stateKeys": number;
  "stateBytes": number;
  "totalLag": number;
  "maxTimeLag": number | null;
  "lastCycleAt": string | null;
  "lastError": string | null;
  "lastErrorAt": string | null;
  "createdAt": string | null;
  "registeredAt": string | null;
}
export interface StuckPartition {
  "partition": string;
  "partitionId": string;
  "state": string;
  "backlog": number;
  "nextTransactionId": string | null;
  "oldestMessage": string | null;
  "leaseId": string | null;
  "leaseExpiresAt": string | null;
  "leasedMessages": number | null;
  "retryCount": number;
  "retryAt": string | null;
  "lastError": string | null;
  "expiredLeases": number;
  "blockedTransactionId": string | null;
  "lastConsumedAt": string | null;
}
export interface SwitchRequest {
  "enabled": boolean;
}
export interface SystemMetrics {
  "timeRange": TimeRange;
  "replicas": (ReplicaGauges)[];
  "replicaCount": number;
  "bucketMinutes": number;
  "pointCount": number;
}
export interface TableCache {
  "blocksHit": number;
  "blocksRead": number;
  "hitRatio": number | null;
  "table": string;
}
export interface TableCompared {
  "table": string;
  "sourceCount": number;
  "targetCount": number;
  "match": boolean;
}
export interface TableSize {
  "table": string;
  "tableBytes": number;
  "indexBytes": number;
  "totalBytes": number;
}
export interface TargetTested {
  "success": boolean;
  "message": string;
  "version": string | null;
  "error": string | null;
}
export interface Task {
  "task": string;
  "queues": number;
  "partitions": number;
  "messages": PendingCounts;
}
export interface TaskList {
  "tasks": (Task)[];
}
export interface Throughput {
  "ingestedPerSecond": number;
  "processedPerSecond": number;
}
export interface ThroughputPoint {
  "timestamp": string;
  "ingested": number;
  "ingestedPerSecond": number;
  "processed": number;
  "popMessages": number;
  "processedPerSecond": number;
  "popPerSecond": number;
  "avgLagMs": number;
  "maxLagMs": number;
  "avgEventLoopLagMs": number;
  "maxEventLoopLagMs": number;
  "minFreeSlots": number;
  "dbErrors": number;
  "ackFailed": number;
  "dlqCount": number;
  "queenCpuUserPct": number;
  "queenCpuSysPct": number;
  "queenRssMb": number;
  "dbPoolActive": number;
  "dbPoolIdle": number;
  "dbPoolSize": number;
}
export interface TimeRange {
  "from": string;
  "to": string;
}
export interface Token {
  "id": string;
  "kind": string;
  "name": string;
  "shown": string;
  "subject": string | null;
  "role": string;
  "queues": (string)[] | null;
  "verbs": (string)[] | null;
  "state": string;
  "createdAt": string | null;
  "createdBy": string | null;
  "expiresAt": string | null;
  "lastUsedAt": string | null;
  "revokedAt": string | null;
}
export interface TokenList {
  "tokens": (Token)[];
  "pagination": Pagination;
}
export interface TokenRequest {
  "name": string;
  "role": string;
  "queues": (string)[] | null;
  "verbs": (string)[] | null;
  "subject": string | null;
  "expiresInDays": number | null;
}
export interface TokenRevoked {
  "revoked": boolean;
  "id": string;
  "name": string;
}
export interface Trace {
  "id": string;
  "event_type": string;
  "data": unknown;
  "consumer_group": string;
  "worker_id": string | null;
  "created_at": string;
  "trace_names": (string)[];
}
export interface TraceAdded {
  "success": boolean;
  "traceId": string;
}
export interface TraceList {
  "traces": (Trace)[];
}
export interface TraceName {
  "trace_name": string;
  "trace_count": number;
  "message_count": number;
  "last_seen": string;
}
export interface TraceNameList {
  "trace_names": (TraceName)[];
  "total": number;
  "pagination": Pagination;
}
export interface TraceRequest {
  "transactionId": string;
  "partitionId": string;
  "data": unknown;
  "consumerGroup": string | null;
  "eventType": string | null;
  "traceNames": (string)[] | string | null;
}
export interface TransactionAck {
  "type": "ack";
  "index": number;
  "success": boolean;
  "transactionId": string;
  "error": string | null;
  "dlq": boolean;
}
export interface TransactionAnswer {
  "transactionId": string;
  "success": boolean;
  "error": string | null;
  "results": (TransactionPush | TransactionAck)[];
}
export interface TransactionOperation {
  "type": string;
  "items": (PushItem)[] | null;
  "transactionId": string | null;
  "partitionId": string | null;
  "leaseId": string | null;
  "status": string | null;
  "consumerGroup": string | null;
  "error": string | null;
}
export interface TransactionPush {
  "type": "push";
  "index": number;
  "success": boolean;
  "transactionId": string | null;
  "messageId": string | null;
  "partitionId": string;
  "queueName": string;
  "operationId": string | null;
}
export interface TransactionRequest {
  "operations": (TransactionOperation)[];
  "requiredLeases": (string)[] | null;
  "idempotencyKey": string | null;
}
export interface Trouble {
  "code": string;
  "severity": string;
  "message": string;
  "action": string;
  "queue": string | null;
  "consumerGroup": string | null;
}
export interface WaitingGauges {
  "poll_intention": Gauge;
}
export interface WaitingOperations {
  "pending": number;
  "processing": number;
  "failed": number;
}
export interface Worker {
  "hostname": string;
  "workerId": number;
  "avgEventLoopLagMs": number;
  "maxEventLoopLagMs": number;
  "freeSlots": number;
  "dbConnections": number;
  "jobQueueSize": number;
  "messagesProcessed": number;
  "pid": number | null;
  "lastSeen": string | null;
}
export interface WorkerGauges {
  "cpu": CpuGauges;
  "memory": MemoryGauges;
  "database": PoolGauges;
  "threadpool": CallQueues;
  "registries": WaitingGauges;
  "shared_state": SharedState;
}
export interface WorkerMetrics {
  "timeRange": TimeRange;
  "bucketMinutes": number;
  "pointCount": number;
  "timeSeries": (WorkerPoint)[];
  "workers": (Worker)[];
  "queues": (QueueShare)[];
  "summary": WorkerTotals;
}
export interface WorkerPoint {
  "timestamp": string;
  "pushMessages": number;
  "popMessages": number;
  "ackMessages": number;
  "pushRequests": number;
  "popRequests": number;
  "ackRequests": number;
  "jobsDone": number;
  "pushPerSecond": number;
  "popPerSecond": number;
  "ackPerSecond": number;
  "avgEventLoopLagMs": number;
  "maxEventLoopLagMs": number;
  "avgFreeSlots": number;
  "minFreeSlots": number;
  "dbConnections": number;
  "avgJobQueueSize": number;
  "maxJobQueueSize": number;
  "backoffSize": number;
  "avgLagMs": number;
  "maxLagMs": number;
  "lagCount": number;
  "dbErrors": number;
  "ackSuccess": number;
  "ackFailed": number;
  "dlqCount": number;
}
export interface WorkerState {
  "worker_id": number;
  "status": string;
}
export interface WorkerTotals {
  "totalPushMessages": number;
  "totalPopMessages": number;
  "totalAckMessages": number;
  "totalPushRequests": number;
  "totalPopRequests": number;
  "totalAckRequests": number;
  "totalAckSuccess": number;
  "totalAckFailed": number;
  "totalDlq": number;
  "totalDbErrors": number;
  "pendingMessages": number;
}
export interface XminHolder {
  "what": string;
  "xidAge": number;
  "seconds": number | null;
}
