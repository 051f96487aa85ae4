-- Make the lookup rows of some partitions agree with their messages, where they do not.
--
-- Arguments: p_partition_ids, a slice that is small enough to be held for a moment; p_lock_timeout_ms bounds
-- the wait for each row. Result: how many of the partitions exist, how many got a row, how many rows were
-- changed. A second run changes nothing.
-- last_seq rises to the newest message and to every number that a cursor, a lease or a dead letter knows,
-- and never falls: a number that was given out once is not given out again, since cursors rely on it. The
-- newest message's id and time follow it. first_seq rises to the first message that is left, or past the
-- end where none is; messages below it count as dropped.
-- Tables: partition_lookup (insert, update); queues (row locks); partitions, messages, partition_consumers,
-- dead_letter_queue (read).
-- Locks: queue rows FOR KEY SHARE by name, so that no queue is deleted meanwhile; lookup rows in partition
-- id order, as a push takes them.
-- Errors: 55P03 a row stayed locked for p_lock_timeout_ms.
CREATE OR REPLACE FUNCTION queen.resync_lookup(
    p_partition_ids uuid[],
    p_lock_timeout_ms integer,
    OUT looked_at bigint,
    OUT created bigint,
    OUT repaired bigint
)
LANGUAGE plpgsql
AS $$
DECLARE
    v_made uuid[];
BEGIN
    PERFORM set_config('lock_timeout', p_lock_timeout_ms::text, true);
    PERFORM FROM queen.queues q
    WHERE q.id IN (SELECT p.queue_id FROM queen.partitions p WHERE p.id = ANY (p_partition_ids))
    ORDER BY q.name
    FOR KEY SHARE;

    -- Locks every row of the slice, the new ones among them, in one order; changes only rows that are filed
    -- under a wrong queue.
    WITH made AS (
        INSERT INTO queen.partition_lookup AS l (partition_id, queue_id, number)
        SELECT p.id, p.queue_id,
               -- A new row has a new number, so that ids made with a lost one are not made again.
               coalesce((SELECT x.number FROM queen.partition_lookup x WHERE x.partition_id = p.id),
                        queen.new_partition_number())
        FROM queen.partitions p WHERE p.id = ANY (p_partition_ids) ORDER BY p.id
        ON CONFLICT (partition_id) DO UPDATE SET queue_id = excluded.queue_id
        WHERE l.queue_id <> excluded.queue_id
        RETURNING l.partition_id
    )
    SELECT coalesce(array_agg(m.partition_id), '{}') INTO v_made FROM made m;
    created := cardinality(v_made);
    SELECT count(*) INTO looked_at FROM queen.partitions p WHERE p.id = ANY (p_partition_ids);

    -- A statement of its own: its snapshot is newer than the waits above.
    WITH seen AS (
        SELECT l.*, n.seq AS newest_seq, n.id AS newest_id, n.created_at AS newest_at, n.xid AS newest_xid, o.seq AS oldest_seq,
               greatest(l.last_seq, n.seq, c.seq, d.seq) AS end_seq
        FROM queen.partition_lookup l
        LEFT JOIN LATERAL (
            SELECT m.seq, m.id, m.created_at, m.xid FROM queen.messages m
            WHERE m.partition_id = l.partition_id ORDER BY m.seq DESC LIMIT 1
        ) n ON true
        LEFT JOIN LATERAL (
            SELECT m.seq FROM queen.messages m
            WHERE m.partition_id = l.partition_id AND m.seq >= l.first_seq ORDER BY m.seq LIMIT 1
        ) o ON true
        CROSS JOIN LATERAL (
            SELECT max(greatest(pc.cursor_seq, pc.lease_end_seq)) AS seq FROM queen.partition_consumers pc
            WHERE pc.partition_id = l.partition_id
        ) c
        CROSS JOIN LATERAL (
            SELECT max(x.seq) AS seq FROM queen.dead_letter_queue x WHERE x.partition_id = l.partition_id
        ) d
        WHERE l.partition_id = ANY (p_partition_ids)
    ), wanted AS (
        SELECT s.partition_id, coalesce(s.oldest_seq, s.end_seq + 1) AS first_seq, s.end_seq AS last_seq,
               CASE WHEN s.newest_seq >= s.last_seq OR s.last_message_id IS NULL
                    THEN s.newest_id ELSE s.last_message_id END AS last_message_id,
               CASE WHEN s.newest_seq >= s.last_seq OR s.last_message_created_at IS NULL
                    THEN s.newest_at ELSE s.last_message_created_at END AS last_message_created_at,
               CASE WHEN s.newest_seq >= s.last_seq OR s.last_message_id IS NULL
                    THEN s.newest_xid ELSE s.last_xid END AS last_xid
        FROM seen s
    ), changed AS (
        UPDATE queen.partition_lookup l
        SET first_seq = w.first_seq,
            last_seq = w.last_seq,
            last_message_id = w.last_message_id,
            last_message_created_at = w.last_message_created_at,
            last_xid = w.last_xid
        FROM wanted w
        WHERE l.partition_id = w.partition_id
          AND (l.first_seq, l.last_seq, l.last_message_id, l.last_message_created_at, l.last_xid)
              IS DISTINCT FROM (w.first_seq, w.last_seq, w.last_message_id, w.last_message_created_at, w.last_xid)
        RETURNING l.partition_id
    )
    SELECT count(*) INTO repaired FROM changed x WHERE x.partition_id <> ALL (v_made);
END
$$;
