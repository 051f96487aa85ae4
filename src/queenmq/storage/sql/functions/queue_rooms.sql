-- How many more messages each partition of a push may take under its queue's maxSize.
--
-- Arguments: the queue of each partition of the push, and the items' positions in that list.
-- Result: one element per partition, NULL for a queue without a bound; NULL when no queue has one.
-- Counted is what still waits: messages that some group of the queue has not passed (passed_by_all), or all
-- retained ones of a queue without groups. The room of a queue is handed to its partitions in order.
-- Locks: an advisory lock per bounded queue, in id order, held to commit: two pushes to different
-- partitions must not both take the last place.
CREATE OR REPLACE FUNCTION queen.queue_rooms(p_queue_ids uuid[], p_item_partitions integer[])
RETURNS bigint[]
LANGUAGE plpgsql
AS $$
DECLARE
    v_bounded uuid[];
    v_rooms bigint[];
BEGIN
    SELECT array_agg(q.id ORDER BY q.id) INTO v_bounded
    FROM queen.queues q WHERE q.id = ANY (p_queue_ids) AND q.max_size > 0;
    IF v_bounded IS NULL THEN
        RETURN NULL;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended(b.id::text, 0))
    FROM unnest(v_bounded) WITH ORDINALITY AS b (id, n) ORDER BY b.n;
    WITH waiting AS (
        SELECT l.queue_id, sum(l.last_seq - l.seq - (
                   SELECT count(*) FROM queen.removed_messages r
                   WHERE r.partition_id = l.partition_id AND r.seq > l.seq)) AS messages
        FROM unnest(v_bounded) AS b (id) CROSS JOIN LATERAL queen.passed_by_all(b.id) l
        GROUP BY l.queue_id
    ), asked AS (
        SELECT i.k, count(*) AS items FROM unnest(p_item_partitions) AS i (k) GROUP BY i.k
    ), shared AS (
        SELECT p.n, greatest(0, q.max_size - coalesce(w.messages, 0)
                   - coalesce(sum(a.items) OVER before, 0)) AS room, q.id IS NOT NULL AS is_bounded
        FROM unnest(p_queue_ids) WITH ORDINALITY AS p (queue_id, n)
        JOIN asked a ON a.k = p.n
        LEFT JOIN queen.queues q ON q.id = p.queue_id AND q.id = ANY (v_bounded)
        LEFT JOIN waiting w ON w.queue_id = p.queue_id
        WINDOW before AS (PARTITION BY p.queue_id ORDER BY p.n
                          ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
    )
    SELECT array_agg(CASE WHEN s.is_bounded THEN s.room END ORDER BY s.n) INTO v_rooms FROM shared s;
    RETURN v_rooms;
END
$$;
