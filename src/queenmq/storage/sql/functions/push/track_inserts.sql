-- Keep partition_lookup right for messages that arrive by any other path than push_messages: SQL scripts,
-- COPY, loaders. The trigger messages_track_inserts calls it once per statement with all inserted rows.
--
-- push_messages moves the lookup rows itself and says so by the flag queen.tracks_lookup, so that the
-- trigger leaves its inserts alone.
-- Per partition: last_seq only grows, and the newest message's id and time are those of the highest seq;
-- first_seq goes down to what was inserted, or up to it where the partition held nothing.
-- Tables: partition_lookup (upsert); partitions, queues (read). Waiting consumers are woken on commit.
-- Locks: lookup rows in partition id order, held to commit. The messages are in the index by then: a loader
-- that runs beside producers of the same partition locks its lookup row first and numbers from there.
-- Errors: QN001 a partition does not exist; 23514 a seq is below 1.
CREATE OR REPLACE FUNCTION queen.track_inserts()
RETURNS trigger
LANGUAGE plpgsql
AS $$
DECLARE
    -- PostgreSQL takes less than 8000 bytes.
    c_wake_bytes_max CONSTANT integer := 7500;
    v_queues json;
BEGIN
    -- The order is what keeps two sessions from waiting in a circle.
    INSERT INTO queen.partition_lookup AS l
        (partition_id, queue_id, first_seq, last_seq, last_message_id, last_message_created_at, last_xid, number)
    SELECT p.id, p.queue_id, n.first_seq, n.seq, n.id, n.created_at, n.xid,
           -- Numbers are for new rows only, and hardly any is.
           coalesce((SELECT x.number FROM queen.partition_lookup x WHERE x.partition_id = p.id),
                    queen.new_partition_number())
    FROM (
        SELECT DISTINCT ON (i.partition_id) i.partition_id, i.seq, i.id, i.created_at, i.xid,
               min(i.seq) OVER (PARTITION BY i.partition_id) AS first_seq
        FROM inserted i
        ORDER BY i.partition_id, i.seq DESC
    ) n
    JOIN queen.partitions p ON p.id = n.partition_id
    ORDER BY p.id
    ON CONFLICT (partition_id) DO UPDATE
    SET first_seq = CASE WHEN l.last_seq < l.first_seq AND excluded.first_seq > l.last_seq
                         THEN excluded.first_seq ELSE least(l.first_seq, excluded.first_seq) END,
        last_seq = greatest(l.last_seq, excluded.last_seq),
        last_message_id = CASE WHEN l.last_message_id IS NULL OR excluded.last_seq >= l.last_seq
                               THEN excluded.last_message_id ELSE l.last_message_id END,
        last_message_created_at = CASE WHEN l.last_message_id IS NULL OR excluded.last_seq >= l.last_seq
                                       THEN excluded.last_message_created_at
                                       ELSE l.last_message_created_at END,
        last_xid = CASE WHEN l.last_message_id IS NULL OR excluded.last_seq >= l.last_seq
                        THEN excluded.last_xid ELSE l.last_xid END
    WHERE excluded.last_seq >= l.last_seq OR excluded.first_seq < l.first_seq OR l.last_message_id IS NULL;

    -- A look of its own, newer than the wait above: the queue may have been deleted meanwhile.
    PERFORM FROM inserted i
    WHERE NOT EXISTS (SELECT FROM queen.partitions p WHERE p.id = i.partition_id);
    IF FOUND THEN
        RAISE EXCEPTION 'a partition of these messages does not exist' USING ERRCODE = 'QN001';
    END IF;

    SELECT json_agg(q.name ORDER BY q.name) INTO v_queues
    FROM queen.queues q
    WHERE q.id IN (SELECT p.queue_id FROM queen.partitions p
                   WHERE p.id IN (SELECT i.partition_id FROM inserted i));
    IF v_queues IS NOT NULL THEN
        IF octet_length(v_queues::text) > c_wake_bytes_max THEN
            v_queues := '["*"]';
        END IF;
        -- No broker is the sender, so all of them listen.
        PERFORM pg_notify('queen_wake', json_build_object('from', '', 'queues', v_queues)::text);
    END IF;
    RETURN NULL;
END
$$;
