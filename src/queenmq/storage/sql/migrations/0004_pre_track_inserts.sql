-- Messages that do not come through push_messages move partition_lookup as well, and what came that way
-- before is caught up with.

-- Lookup rows before messages, as every push: holding the second and waiting for the first could meet a
-- push that does the opposite. From here on no push is between its lookup row and its commit.
LOCK TABLE queen.partition_lookup IN EXCLUSIVE MODE;

-- The migrator gives it its body, in this same transaction: functions/track_inserts.sql.
CREATE FUNCTION queen.track_inserts() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';

-- Waits for inserts in flight and holds off new ones until this transaction has ended, so that the next
-- statement sees every message that the trigger did not.
CREATE TRIGGER messages_track_inserts
    AFTER INSERT ON queen.messages
    REFERENCING NEW TABLE AS inserted
    FOR EACH STATEMENT
    WHEN (current_setting('queen.tracks_lookup', true) IS DISTINCT FROM 'on')
    EXECUTE FUNCTION queen.track_inserts();

-- Rows that are missing or behind their messages. A number that a cursor or a dead letter knows was given
-- out before and is not given out again. Nobody else writes lookup rows meanwhile.
INSERT INTO queen.partition_lookup
    (partition_id, queue_id, first_seq, last_seq, last_message_id, last_message_created_at)
SELECT p.id, p.queue_id,
       CASE WHEN l.partition_id IS NULL OR (l.last_seq < l.first_seq AND o.seq > l.last_seq)
            THEN coalesce(o.seq, greatest(g.seq, 0) + 1) ELSE l.first_seq END,
       greatest(n.seq, g.seq, 0), n.id, n.created_at
FROM queen.partitions p
LEFT JOIN queen.partition_lookup l ON l.partition_id = p.id
LEFT JOIN LATERAL (
    SELECT m.seq, m.id, m.created_at FROM queen.messages m
    WHERE m.partition_id = p.id ORDER BY m.seq DESC LIMIT 1
) n ON true
LEFT JOIN LATERAL (
    SELECT m.seq FROM queen.messages m WHERE m.partition_id = p.id ORDER BY m.seq LIMIT 1
) o ON true
CROSS JOIN LATERAL (
    SELECT greatest(
        (SELECT max(greatest(c.cursor_seq, c.lease_end_seq)) FROM queen.partition_consumers c
         WHERE c.partition_id = p.id),
        (SELECT max(d.seq) FROM queen.dead_letter_queue d WHERE d.partition_id = p.id)) AS seq
) g
WHERE l.partition_id IS NULL OR n.seq > l.last_seq
   OR (n.seq = l.last_seq
       AND (n.id, n.created_at) IS DISTINCT FROM (l.last_message_id, l.last_message_created_at))
ORDER BY p.id
ON CONFLICT (partition_id) DO UPDATE
SET first_seq = excluded.first_seq,
    last_seq = excluded.last_seq,
    last_message_id = excluded.last_message_id,
    last_message_created_at = excluded.last_message_created_at;
