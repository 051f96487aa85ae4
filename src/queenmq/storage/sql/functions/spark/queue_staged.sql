-- Queue staged messages behind the operations that wait in their partitions, for publish_staged, which holds the lookup
-- rows.
--
-- Arguments: the stages in the order of their tasks; the partitions. Rows of others are left alone.
-- Result: the number of messages. They become operations of about 5,000 items or 8 MB, of whole lists
-- (sink_lists.py bounds a list by the same).
-- Tables: spark_staging (read), those of queue_push.
-- Locks: as queue_push, partitions ascending.
-- Errors: those of queue_push.
CREATE OR REPLACE FUNCTION queen.queue_staged(p_stage_ids uuid[], p_partition_ids uuid[])
RETURNS bigint
LANGUAGE plpgsql
SET enable_nestloop = off
SET jit = off
AS $$
DECLARE
    c_items_max CONSTANT integer := 5000;
    c_bytes_max CONSTANT bigint := 8 * 1024 * 1024;
    -- As the brokers' own bound.
    c_queue_max CONSTANT integer := 10000;
    v_operation record;
    v_items record;
    v_queued bigint := 0;
BEGIN
    FOR v_operation IN
        SELECT i.partition_id, array_agg(i.row ORDER BY i.n) AS rows
        FROM (SELECT p.id AS partition_id, s.ctid AS row, row_number() OVER line AS n,
                     sum(cardinality(s.payloads)) OVER line - cardinality(s.payloads) AS items,
                     sum(pg_column_size(s.payloads)) OVER line - pg_column_size(s.payloads) AS bytes
              FROM queen.spark_staging s
              JOIN unnest(p_stage_ids) WITH ORDINALITY AS g (stage_id, task) ON g.stage_id = s.stage_id
              JOIN queen.queues q ON q.name = s.queue
              JOIN queen.partitions p ON p.queue_id = q.id AND p.name = s.partition
              WHERE p.id = ANY (p_partition_ids)
              WINDOW line AS (PARTITION BY p.id ORDER BY g.task, s.ordinal ROWS UNBOUNDED PRECEDING)) i
        GROUP BY i.partition_id, i.items / c_items_max, i.bytes / c_bytes_max
        ORDER BY i.partition_id, min(i.n)
    LOOP
        -- Payloads were not sorted with the rest: they may be far more than memory.
        SELECT array_agg(i.payload ORDER BY u.n, i.n) AS payloads,
               array_agg(i.transaction_id ORDER BY u.n, i.n) AS transaction_ids,
               array_agg(i.trace_id::uuid ORDER BY u.n, i.n) AS trace_ids,
               array_agg(CASE WHEN s.is_encrypted THEN true END ORDER BY u.n, i.n) AS encrypted,
               count(*)::integer AS count
        INTO v_items
        FROM unnest(v_operation.rows) WITH ORDINALITY AS u (row, n)
        JOIN queen.spark_staging s ON s.ctid = u.row
        CROSS JOIN LATERAL unnest(s.payloads, s.transaction_ids, s.trace_ids)
            WITH ORDINALITY AS i (payload, transaction_id, trace_id, n)
        WHERE s.ctid = ANY (v_operation.rows);
        PERFORM queen.queue_push(
            ARRAY[v_operation.partition_id], array_fill(1, ARRAY[v_items.count]), v_items.transaction_ids,
            v_items.trace_ids, v_items.payloads, NULL, v_items.encrypted, array_fill(1, ARRAY[v_items.count]),
            ARRAY(SELECT generate_series(0, v_items.count - 1)), ARRAY[true], c_queue_max);
        v_queued := v_queued + v_items.count;
    END LOOP;
    RETURN v_queued;
END
$$;
