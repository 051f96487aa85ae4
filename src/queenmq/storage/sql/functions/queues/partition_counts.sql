-- How many messages the partitions of a queue hold, and how far its consumer groups are; p_queue_id NULL: of all
-- queues.
--
-- Result: a row per partition. total: messages that are kept. completed: those that every group of the queue has
-- passed (passed_by_all). processing: of the others, those in the largest live lease. pending: the rest, all of
-- them in a queue without groups. failed: failed messages that wait for their redelivery. dead_letter: dead
-- letters. From the rows that pushes, pops, acks and removals keep. Takes no locks.
-- Plain SQL without settings of its own, so that it becomes part of the statement that calls it.
CREATE OR REPLACE FUNCTION queen.partition_counts(p_queue_id uuid)
RETURNS TABLE (
    partition_id uuid,
    queue_id uuid,
    total bigint,
    pending bigint,
    processing bigint,
    completed bigint,
    failed bigint,
    dead_letter bigint
)
LANGUAGE sql STABLE
AS $$
    SELECT l.partition_id, l.queue_id, l.last_seq - l.first_seq + 1 - g.all_removed,
           l.last_seq - l.seq - n.leased - g.waiting_removed, n.leased,
           l.seq - l.first_seq + 1 - (g.all_removed - g.waiting_removed), l.failed, coalesce(d.count, 0)
    FROM queen.passed_by_all(p_queue_id) l
    LEFT JOIN (
        SELECT x.partition_id, count(*) FROM queen.dead_letter_queue x
        WHERE p_queue_id IS NULL OR x.queue_id = p_queue_id
        GROUP BY x.partition_id
    ) d ON d.partition_id = l.partition_id
    LEFT JOIN (
        SELECT x.partition_id, array_agg(x.seq) AS seqs FROM queen.removed_messages x GROUP BY x.partition_id
    ) r ON r.partition_id = l.partition_id
    CROSS JOIN LATERAL (
        SELECT count(*) FILTER (WHERE u.seq >= l.first_seq) AS all_removed,
               count(*) FILTER (WHERE u.seq > l.seq) AS waiting_removed
        FROM unnest(r.seqs) AS u (seq)
    ) g
    CROSS JOIN LATERAL (SELECT least(l.leased, l.last_seq - l.seq - g.waiting_removed) AS leased) n
$$;
