-- Note up to which message some partitions are in a lake.
--
-- Arguments: the lake; partitions of queues whose messages of all transactions below p_before are in it and
-- verified; p_takes, whether marks of other lakes are taken over.
-- Result: how many marks moved. A mark never goes back, unless it changes lakes.
-- Transactions of one partition may end in another order than their numbers say, so a mark stops before the first
-- message that is not in the lake yet, whatever lies behind it.
-- Tables: archive_marks (insert, update), partition_lookup, messages (read).
-- Locks: lookup rows FOR KEY SHARE in partition id order, against delete_queue; then the marks in the same order.
CREATE OR REPLACE FUNCTION queen.mark_archived(
    p_lake uuid,
    p_partition_ids uuid[],
    p_before xid8,
    p_takes boolean
)
RETURNS bigint
LANGUAGE plpgsql
AS $$
DECLARE
    v_marked bigint;
BEGIN
    PERFORM FROM queen.partition_lookup WHERE partition_id = ANY (p_partition_ids)
    ORDER BY partition_id FOR KEY SHARE;
    INSERT INTO queen.archive_marks AS k (partition_id, lake, archived_seq, archived_at)
    SELECT l.partition_id, p_lake, coalesce(w.seq - 1, n.seq), clock_timestamp()
    FROM queen.partition_lookup l
    LEFT JOIN queen.archive_marks o ON o.partition_id = l.partition_id
    -- From the mark on: the rows in between are those that were just archived.
    LEFT JOIN LATERAL (
        SELECT m.seq FROM queen.messages m
        WHERE m.partition_id = l.partition_id AND m.xid >= p_before
          AND m.seq > CASE WHEN o.lake = p_lake THEN o.archived_seq ELSE 0 END
        ORDER BY m.seq LIMIT 1
    ) w ON true
    LEFT JOIN LATERAL (
        SELECT m.seq FROM queen.messages m WHERE m.partition_id = l.partition_id ORDER BY m.seq DESC LIMIT 1
    ) n ON true
    WHERE l.partition_id = ANY (p_partition_ids)
      AND (o.lake IS NULL OR o.lake = p_lake OR p_takes)
      AND coalesce(w.seq - 1, n.seq) > CASE WHEN o.lake = p_lake THEN o.archived_seq ELSE -1 END
    ORDER BY l.partition_id
    ON CONFLICT (partition_id) DO UPDATE
    SET lake = excluded.lake, archived_seq = excluded.archived_seq, archived_at = excluded.archived_at
    WHERE (k.lake = excluded.lake AND k.archived_seq < excluded.archived_seq) OR (k.lake <> excluded.lake AND p_takes);
    GET DIAGNOSTICS v_marked = ROW_COUNT;
    RETURN v_marked;
END
$$;
