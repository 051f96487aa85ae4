-- Create a queue or replace all its options, and make sure of its Default partition.
-- Result: the ids.
-- Tables: queues (upsert), operation_queue (update), partitions, partition_lookup (insert).
-- Locks: the queue's row, its failed operations in id order, then those of ensure_partitions.
CREATE OR REPLACE FUNCTION queen.configure_queue(
    p_name text,
    p_namespace text,
    p_task text,
    p_options jsonb,
    OUT queue_id uuid,
    OUT partition_id uuid
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
BEGIN
    INSERT INTO queen.queues AS q (
        name, namespace, task, priority, lease_time, retry_limit, retry_delay, max_size, ttl,
        dead_letter_queue, dlq_after_max_retries, delayed_processing, window_buffer, retention_seconds,
        completed_retention_seconds, retention_enabled, encryption_enabled, max_wait_time_seconds, on_poison,
        on_failed_operation, archive_before_delete, ack_history,
        partition_idle_seconds)
    -- What a broker of an earlier version does not know has its default.
    SELECT p_name, p_namespace, p_task, o.*
    FROM jsonb_to_record(
        '{"archiveBeforeDelete": false, "ackHistory": false, "partitionIdleSeconds": 2592000}' || p_options) AS o (
        "priority" integer, "leaseTime" integer, "retryLimit" integer, "retryDelay" integer,
        "maxSize" bigint, "ttl" integer, "deadLetterQueue" boolean, "dlqAfterMaxRetries" boolean,
        "delayedProcessing" integer, "windowBuffer" integer, "retentionSeconds" integer,
        "completedRetentionSeconds" integer, "retentionEnabled" boolean, "encryptionEnabled" boolean,
        "maxWaitTimeSeconds" integer, "onPoison" text, "onFailedOperation" text,
        "archiveBeforeDelete" boolean, "ackHistory" boolean, "partitionIdleSeconds" integer)
    ON CONFLICT (name) DO UPDATE SET
        namespace = excluded.namespace, task = excluded.task, priority = excluded.priority,
        lease_time = excluded.lease_time, retry_limit = excluded.retry_limit,
        retry_delay = excluded.retry_delay, max_size = excluded.max_size, ttl = excluded.ttl,
        dead_letter_queue = excluded.dead_letter_queue,
        dlq_after_max_retries = excluded.dlq_after_max_retries,
        delayed_processing = excluded.delayed_processing, window_buffer = excluded.window_buffer,
        retention_seconds = excluded.retention_seconds,
        completed_retention_seconds = excluded.completed_retention_seconds,
        retention_enabled = excluded.retention_enabled, encryption_enabled = excluded.encryption_enabled,
        max_wait_time_seconds = excluded.max_wait_time_seconds, on_poison = excluded.on_poison,
        on_failed_operation = excluded.on_failed_operation,
        archive_before_delete = excluded.archive_before_delete,
        ack_history = excluded.ack_history, partition_idle_seconds = excluded.partition_idle_seconds,
        ack_history_since = CASE WHEN excluded.ack_history AND NOT q.ack_history
                                 THEN clock_timestamp() ELSE q.ack_history_since END,
        -- The queue may have come into the view of pops by namespace or task.
        changed_xid = excluded.changed_xid;
    -- Operations that failed before stop nothing any more either.
    UPDATE queen.operation_queue SET is_blocking = false
    WHERE id IN (SELECT o.id FROM queen.operation_queue o JOIN queen.queues q ON q.id = o.queue_id
                 WHERE q.name = p_name AND q.on_failed_operation = 'continue'
                   AND o.status = 'failed' AND o.is_blocking
                 ORDER BY o.id FOR UPDATE OF o);
    SELECT e.queue_id, e.partition_id INTO queue_id, partition_id
    FROM queen.ensure_partitions(ARRAY[p_name], ARRAY['Default'], NULL) e;
END
$$;
