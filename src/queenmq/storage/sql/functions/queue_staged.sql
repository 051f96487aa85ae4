-- Queue staged rows behind the operations that wait in their partitions, for publish_staged, who holds the
-- lookup rows.
--
-- Arguments: the stages in the order of their tasks; the partitions. Rows of others are left alone.
-- Result: how many rows it were. They become operations of at most 5,000 items or 8 MB, or of one item.
-- Tables: spark_staging (read), those of queue_push.
-- Locks: as queue_push, partitions ascending.
-- Errors: those of queue_push.
CREATE OR REPLACE FUNCTION queen.queue_staged(p_stage_ids uuid[], p_partition_ids uuid[])
RETURNS bigint
LANGUAGE plpgsql
SET enable_nestloop = off
AS $$
DECLARE
    c_items_max CONSTANT integer := 5000;
    c_bytes_max CONSTANT bigint := 8 * 1024 * 1024;
    -- As the brokers' own bound.
    c_queue_max CONSTANT integer := 10000;
    v_chunk record;
    v_items record;
    v_queued bigint := 0;
BEGIN
    FOR v_chunk IN
        SELECT i.partition_id, array_agg(i.row ORDER BY i.n) AS rows
        FROM (SELECT p.id AS partition_id, s.ctid AS row, row_number() OVER line AS n,
                     sum(octet_length(s.payload)) OVER line AS bytes
              FROM queen.spark_staging s
              JOIN unnest(p_stage_ids) WITH ORDINALITY AS g (stage_id, task) ON g.stage_id = s.stage_id
              JOIN queen.queues q ON q.name = s.queue
              JOIN queen.partitions p ON p.queue_id = q.id AND p.name = s.partition
              WHERE p.id = ANY (p_partition_ids)
              WINDOW line AS (PARTITION BY p.id ORDER BY g.task, s.ordinal ROWS UNBOUNDED PRECEDING)) i
        GROUP BY i.partition_id, (i.n - 1) / c_items_max, div(i.bytes, c_bytes_max)
        ORDER BY i.partition_id, min(i.n)
    LOOP
        -- Payloads were not sorted with the rest: they may be far more than memory.
        SELECT array_agg(s.payload ORDER BY u.n) AS payloads,
               array_agg(s.transaction_id ORDER BY u.n) AS transaction_ids,
               array_agg(s.trace_id ORDER BY u.n) AS trace_ids, count(*)::integer AS count
        INTO v_items
        FROM unnest(v_chunk.rows) WITH ORDINALITY AS u (row, n)
        JOIN queen.spark_staging s ON s.ctid = u.row
        WHERE s.ctid = ANY (v_chunk.rows);
        PERFORM queen.queue_push(
            ARRAY[v_chunk.partition_id], array_fill(1, ARRAY[v_items.count]), v_items.transaction_ids,
            v_items.trace_ids, v_items.payloads, NULL, NULL, array_fill(1, ARRAY[v_items.count]),
            ARRAY(SELECT generate_series(0, v_items.count - 1)), ARRAY[true], c_queue_max);
        v_queued := v_queued + v_items.count;
    END LOOP;
    RETURN v_queued;
END
$$;
