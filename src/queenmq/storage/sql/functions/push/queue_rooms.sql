-- How many more messages queues may take under their maxSize.
--
-- Arguments: queues; they may repeat. Result: a row per queue that has a bound, none when no queue has one. room
-- is below 0 where more waits than the bound allows, as after the bound was lowered.
-- Counted is what still waits: messages that some group of the queue has not passed (passed_by_all), or all
-- retained ones of a queue without groups; and the items of operations, which were accepted and are going to be stored.
-- Tables: removed_messages, operation_queue (read), those of passed_by_all.
-- Locks: an advisory lock per bounded queue, in id order, held to commit: two pushes to different
-- partitions must not both take the last place.
CREATE OR REPLACE FUNCTION queen.queue_rooms(p_queue_ids uuid[])
RETURNS TABLE (queue_id uuid, room bigint)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    v_bounded uuid[];
BEGIN
    SELECT array_agg(q.id ORDER BY q.id) INTO v_bounded
    FROM queen.queues q WHERE q.id = ANY (p_queue_ids) AND q.max_size > 0;
    IF v_bounded IS NULL THEN
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended(b.id::text, 0))
    FROM unnest(v_bounded) WITH ORDINALITY AS b (id, n) ORDER BY b.n;

    -- A statement of its own: its snapshot is newer than the wait above.
    RETURN QUERY
    WITH waiting AS (
        SELECT l.queue_id, sum(l.last_seq - l.seq - (
                   SELECT count(*) FROM queen.removed_messages r
                   WHERE r.partition_id = l.partition_id AND r.seq > l.seq)) AS messages
        FROM unnest(v_bounded) AS b (id) CROSS JOIN LATERAL queen.passed_by_all(b.id) l
        GROUP BY l.queue_id
    ), accepted AS (
        SELECT o.queue_id, sum(o.item_count) AS messages FROM queen.operation_queue o
        WHERE o.is_blocking AND o.queue_id = ANY (v_bounded)
        GROUP BY o.queue_id
    )
    SELECT q.id, (q.max_size - coalesce(w.messages, 0) - coalesce(a.messages, 0))::bigint
    FROM queen.queues q
    LEFT JOIN waiting w ON w.queue_id = q.id
    LEFT JOIN accepted a ON a.queue_id = q.id
    WHERE q.id = ANY (v_bounded);
END
$$;
