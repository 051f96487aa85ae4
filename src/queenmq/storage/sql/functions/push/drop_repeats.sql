-- Take out of staged lists the messages whose transaction id their partition has already, for store_staged,
-- whose caller holds the lookup rows.
--
-- Arguments: as store_staged. Result: how many were taken out.
-- Of the same transaction id in a partition the first wins. Batches without transaction ids cost a look.
-- Tables: spark_staging (update); messages, partition_lookup (read). Locks: the staged rows, as discard_staged.
CREATE OR REPLACE FUNCTION queen.drop_repeats(
    p_stage_ids uuid[],
    p_partition_ids uuid[],
    p_queue_names text[],
    p_partition_names text[]
)
RETURNS bigint
LANGUAGE plpgsql
AS $$
DECLARE
    v_dropped bigint;
BEGIN
    WITH named AS (
        SELECT s.stage_id, s.ordinal, i.n, p.id AS partition_id, i.transaction_id,
               row_number() OVER (PARTITION BY p.id, i.transaction_id ORDER BY g.task, s.ordinal, i.n) AS nth
        FROM queen.spark_staging s
        JOIN unnest(p_stage_ids) WITH ORDINALITY AS g (stage_id, task) ON g.stage_id = s.stage_id
        JOIN unnest(p_partition_ids, p_queue_names, p_partition_names) AS p (id, queue, name)
            ON p.queue = s.queue AND p.name = s.partition
        CROSS JOIN LATERAL unnest(s.transaction_ids) WITH ORDINALITY AS i (transaction_id, n)
        WHERE s.stage_id = ANY (p_stage_ids) AND s.transaction_ids IS NOT NULL AND i.transaction_id IS NOT NULL
    ), repeats AS MATERIALIZED (
        SELECT r.stage_id, r.ordinal, array_agg(r.n) AS places
        FROM named r
        JOIN queen.partition_lookup l ON l.partition_id = r.partition_id
        WHERE r.nth > 1
           OR (l.last_seq > 0 AND EXISTS (SELECT FROM queen.find_stored(r.partition_id, r.transaction_id, NULL)))
        GROUP BY r.stage_id, r.ordinal
    ), kept AS (
        UPDATE queen.spark_staging s
        SET (payloads, transaction_ids, trace_ids) = (
            SELECT coalesce(array_agg(i.payload ORDER BY i.n), '{}'),
                   coalesce(array_agg(i.transaction_id ORDER BY i.n), '{}'),
                   CASE WHEN s.trace_ids IS NOT NULL THEN coalesce(array_agg(i.trace_id ORDER BY i.n), '{}') END
            FROM unnest(s.payloads, s.transaction_ids, s.trace_ids)
                WITH ORDINALITY AS i (payload, transaction_id, trace_id, n)
            WHERE i.n <> ALL (r.places))
        FROM repeats r
        WHERE s.stage_id = r.stage_id AND s.ordinal = r.ordinal
    )
    SELECT coalesce(sum(cardinality(r.places)), 0) INTO v_dropped FROM repeats r;
    RETURN v_dropped;
END
$$;
