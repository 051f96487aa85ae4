-- Which cycles of streams can be committed, and why the others cannot.
--
-- Arguments: those of commit_cycles, whose caller holds the rows of the pairs.
-- Result: one row per cycle. error: why it is refused. is_repeat: it is the last one of its pair, sent again.
-- cursor_seq: where its group is; that may change until the cursor is locked.
-- A flush is a cycle without an ack that deletes state: it closes windows. It is refused while a worker has a lease
-- on the partition, where a value has changed since it was offered, and where one is gone that it would emit.
-- A cycle that names the version of the state it has seen is refused once that has changed.
-- Takes no locks.
CREATE OR REPLACE FUNCTION queen.judge_cycles(
    p_query_ids uuid[],
    p_partition_ids uuid[],
    p_consumer_groups text[],
    p_digests uuid[],
    p_versions bigint[],
    p_ack_transaction_ids text[],
    p_ack_lease_ids uuid[],
    p_ack_statuses text[],
    p_op_cycles integer[],
    p_op_keys text[],
    p_op_values text[],
    p_item_cycles integer[]
)
RETURNS TABLE (
    ordinal integer,
    error text,
    is_repeat boolean,
    is_flush boolean,
    queue_name text,
    partition_name text,
    cursor_seq bigint
)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    c_lease_lost CONSTANT text := 'Invalid or expired lease; pop again';
BEGIN
    RETURN QUERY
    WITH flush AS (
        SELECT o.cycle, bool_or(s.key IS NULL) AND o.cycle = ANY (p_item_cycles) AS is_gone,
               bool_or(NOT s.is_offered) AND p_versions[o.cycle] IS NULL AS is_changed
        FROM unnest(p_op_cycles, p_op_keys, p_op_values) AS o (cycle, key, value)
        LEFT JOIN queen_streams.state s
            ON s.query_id = p_query_ids[o.cycle] AND s.partition_id = p_partition_ids[o.cycle] AND s.key = o.key
        WHERE o.value IS NULL AND p_ack_transaction_ids[o.cycle] IS NULL
        GROUP BY o.cycle
    ), known AS (
        SELECT c.*, q.id IS NOT NULL AS is_registered, t.version AS version_now, x.id IS NOT NULL AS is_there,
               -- After a seek back the same ack without a lease means another delivery.
               coalesce(t.digest = c.digest, false)
                   AND NOT (c.lease_id IS NULL AND m.seq IS NOT NULL AND coalesce(pc.cursor_seq, 0) < m.seq)
                   AS is_repeat,
               y.name::text AS queue_name, x.name::text AS partition_name, m.seq, pc.cursor_seq, pc.lease_end_seq,
               c.lease_id IS NULL OR coalesce(c.lease_id = pc.lease_id, false) AS is_own_lease,
               coalesce(pc.lease_expires_at > clock_timestamp(), false) AS is_leased,
               f.cycle IS NOT NULL AS is_flush, f.is_gone, f.is_changed
        FROM unnest(p_query_ids, p_partition_ids, p_consumer_groups, p_digests, p_versions, p_ack_transaction_ids,
                    p_ack_lease_ids, p_ack_statuses) WITH ORDINALITY
             AS c (query_id, partition_id, consumer_group, digest, version, transaction_id, lease_id, status, n)
        LEFT JOIN queen_streams.queries q ON q.id = c.query_id
        LEFT JOIN queen_streams.partitions t ON t.query_id = c.query_id AND t.partition_id = c.partition_id
        LEFT JOIN queen.partitions x ON x.id = c.partition_id
        LEFT JOIN queen.queues y ON y.id = x.queue_id
        LEFT JOIN queen.partition_consumers pc
            ON pc.partition_id = c.partition_id AND pc.consumer_group = c.consumer_group
        LEFT JOIN flush f ON f.cycle = c.n
        CROSS JOIN LATERAL (SELECT CASE WHEN c.transaction_id IS NOT NULL
                                        THEN queen.find_message(c.partition_id, c.transaction_id) END AS seq) m
    )
    SELECT k.n::integer, CASE
            WHEN NOT k.is_registered THEN format('Query %s does not exist; register it', k.query_id)
            WHEN k.is_repeat THEN NULL
            WHEN NOT k.is_there THEN format('Partition %s does not exist; pop again', k.partition_id)
            WHEN k.version <> k.version_now THEN
                format('The state has changed since version %s, it is at %s; read it again', k.version, k.version_now)
            WHEN k.transaction_id IS NULL THEN CASE
                WHEN k.is_flush AND k.is_leased THEN
                    'A worker has a lease on the partition, so its windows cannot be closed from outside; try later'
                WHEN k.is_gone THEN 'A window was closed by another worker; read the state again'
                WHEN k.is_changed THEN 'A window has changed since it was read; read the state again' END
            WHEN k.status NOT IN ('completed', 'success', 'failed', 'dlq') THEN
                format('ack.status %s is not one of completed, failed, dlq', k.status)
            WHEN k.seq IS NULL THEN format('Message not found: %s', k.transaction_id)
            WHEN NOT k.is_own_lease OR k.cursor_seq IS NULL THEN c_lease_lost
            WHEN k.seq <= k.cursor_seq THEN 'Message was already consumed; pop again'
            WHEN k.lease_id IS NOT NULL AND NOT k.is_leased THEN c_lease_lost
            WHEN k.seq > k.lease_end_seq AND (k.lease_id IS NOT NULL OR k.status IN ('failed', 'dlq'))
                OR NOT k.is_leased AND k.status IN ('failed', 'dlq') THEN
                'Message is not leased to this consumer group; pop again' END,
           k.is_repeat, k.is_flush, k.queue_name, k.partition_name, k.cursor_seq
    FROM known k
    ORDER BY k.n;
END
$$;
