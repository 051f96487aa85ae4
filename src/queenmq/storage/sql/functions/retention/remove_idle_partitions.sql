-- Remove partitions of a queue that are empty and have been idle for its partitionIdleSeconds.
--
-- Arguments: the queue; the partition after which to look, in id order; how many partitions to look at, and how
-- many to remove at most.
-- Result: removed, how many went; next_after, where to go on, NULL after the last one; is_held: something else
-- holds the queue just now, so nothing was done and p_after is where to go on.
-- What goes, and what keeps a partition, is find_idle_partitions. With the partition go its lookup row, cursors,
-- archive mark and the empty rows of stream queries. Remembered starts stay, so that a group which began with `new`
-- gets everything that is pushed after the partition is created again. A group that would not be known on the queue any
-- more is
-- remembered with a start before all messages: retention must not take what it has yet to read.
-- Clients do not notice: a push with the old id gets QN001 and creates the partition again, with another id and from
-- seq 1 on. Message ids contain the number of the partition, so none repeats.
-- Tables: partitions, partition_lookup, partition_consumers, archive_marks, removed_messages, queen_streams.partitions
-- (delete), consumer_groups_metadata, retention_history (insert).
-- Locks: the advisory lock of the queue's retention; the queue's row FOR UPDATE, so that no session gets an id that is
-- about to be removed (ensure_partitions); pairs of streams, lookup rows in id order, cursor rows. Skips what is
-- locked;
-- never waits.
CREATE OR REPLACE FUNCTION queen.remove_idle_partitions(
    p_queue_id uuid,
    p_after uuid,
    p_partitions_max integer,
    p_removals_max integer,
    OUT removed bigint,
    OUT next_after uuid,
    OUT is_held boolean
)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_queue queen.queues;
    v_ids uuid[];
BEGIN
    removed := 0;
    is_held := false;
    SELECT * INTO v_queue FROM queen.queues q WHERE q.id = p_queue_id;
    SELECT f.ids, f.next_after INTO v_ids, next_after
    FROM queen.find_idle_partitions(v_queue, p_after, NULL, p_partitions_max, p_removals_max) f;
    IF cardinality(v_ids) = 0 THEN
        RETURN;
    END IF;

    PERFORM FROM queen.queues q WHERE q.id = p_queue_id FOR UPDATE SKIP LOCKED;
    IF NOT FOUND OR NOT pg_try_advisory_xact_lock(hashtextextended('retention ' || p_queue_id, 0)) THEN
        is_held := true;
        next_after := p_after;
        RETURN;
    END IF;
    PERFORM FROM queen_streams.partitions t WHERE t.partition_id = ANY (v_ids)
    ORDER BY t.query_id, t.partition_id FOR UPDATE SKIP LOCKED;
    v_ids := ARRAY(SELECT l.partition_id FROM queen.partition_lookup l WHERE l.partition_id = ANY (v_ids)
                   ORDER BY l.partition_id FOR UPDATE SKIP LOCKED);
    -- Whoever has a cursor or a pair in hand keeps the partition. A new one needs the lookup row.
    v_ids := ARRAY(
        SELECT u.id FROM unnest(v_ids) AS u (id)
        WHERE (SELECT count(*) FROM queen.partition_consumers c WHERE c.partition_id = u.id) = (
                  SELECT count(*) FROM (SELECT FROM queen.partition_consumers c WHERE c.partition_id = u.id
                                        ORDER BY c.consumer_group FOR UPDATE SKIP LOCKED) k)
          AND (SELECT count(*) FROM queen_streams.partitions t WHERE t.partition_id = u.id) = (
                  SELECT count(*) FROM (SELECT FROM queen_streams.partitions t WHERE t.partition_id = u.id
                                        FOR UPDATE SKIP LOCKED) k)
        ORDER BY u.id);
    -- Lock first, then look again: the options of the queue may have changed as well.
    SELECT * INTO v_queue FROM queen.queues q WHERE q.id = p_queue_id;
    SELECT f.ids INTO v_ids FROM queen.find_idle_partitions(v_queue, NULL, v_ids, NULL, p_removals_max) f;
    removed := cardinality(v_ids);
    IF removed = 0 THEN
        RETURN;
    END IF;

    WITH gone AS (
        DELETE FROM queen.partition_consumers c WHERE c.partition_id = ANY (v_ids)
        RETURNING c.consumer_group
    )
    INSERT INTO queen.consumer_groups_metadata
        (queue_name, consumer_group, partition_name, subscription_mode, subscription_timestamp)
    SELECT v_queue.name, g.consumer_group, '', 'timestamp', 'epoch'
    FROM (SELECT DISTINCT x.consumer_group FROM gone x) g
    WHERE NOT EXISTS (SELECT FROM queen.consumer_groups_metadata m
                      WHERE m.queue_name = v_queue.name AND m.consumer_group = g.consumer_group)
      AND NOT EXISTS (SELECT FROM queen.partition_consumers c
                      WHERE c.queue_id = p_queue_id AND c.consumer_group = g.consumer_group
                        AND c.partition_id <> ALL (v_ids))
    ORDER BY g.consumer_group;
    DELETE FROM queen_streams.partitions t WHERE t.partition_id = ANY (v_ids);
    DELETE FROM queen.removed_messages r WHERE r.partition_id = ANY (v_ids);
    DELETE FROM queen.partition_lookup l WHERE l.partition_id = ANY (v_ids);
    DELETE FROM queen.partitions p WHERE p.id = ANY (v_ids);

    INSERT INTO queen.retention_history AS h (bucket, queue_id, removed_partitions)
    VALUES (date_trunc('minute', now()), p_queue_id, removed)
    ON CONFLICT (bucket, queue_id) DO UPDATE
    SET removed_partitions = h.removed_partitions + excluded.removed_partitions;
END
$$;
