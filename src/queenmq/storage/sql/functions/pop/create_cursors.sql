-- Give each (partition, consumer group) that has none yet a cursor at the group's start.
--
-- Arguments: parallel arrays; pairs may repeat, partitions that do not exist are passed over. A pair that
-- another session is creating just now, or whose partition it is deleting, is waited for only with
-- p_may_wait; else it is passed over, so that a pop never waits.
-- Result: how many were missing and have a cursor now.
-- Tables: partition_consumers (insert), partition_lookup, queues, consumer_groups_metadata, messages (read).
-- Locks: pair by pair in (partition id, group) order the lookup row (FOR KEY SHARE, which pushes do not mind),
-- an advisory lock shared by the creators of the group's cursors on the queue, one of the pair's own; then the new
-- rows.
CREATE OR REPLACE FUNCTION queen.create_cursors(
    p_partition_ids uuid[],
    p_consumer_groups text[],
    p_may_wait boolean
)
RETURNS integer
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_partition_ids uuid[];
    v_groups text[];
    v_lock_ids bigint[];
    v_queue_ids uuid[];
BEGIN
    SELECT array_agg(w.partition_id), array_agg(w.consumer_group),
           array_agg(hashtextextended(w.consumer_group, hashtextextended(w.partition_id::text, 0)))
    INTO v_partition_ids, v_groups, v_lock_ids
    FROM (
        SELECT DISTINCT u.partition_id, u.consumer_group
        FROM unnest(p_partition_ids, p_consumer_groups) AS u (partition_id, consumer_group)
        WHERE NOT EXISTS (
            SELECT FROM queen.partition_consumers x
            WHERE x.partition_id = u.partition_id AND x.consumer_group = u.consumer_group)
        ORDER BY u.partition_id, u.consumer_group
    ) w;
    IF v_partition_ids IS NULL THEN
        RETURN 0;
    END IF;

    IF p_may_wait THEN
        FOR i IN 1 .. cardinality(v_partition_ids) LOOP
            v_queue_ids[i] := (SELECT l.queue_id FROM queen.partition_lookup l
                               WHERE l.partition_id = v_partition_ids[i] FOR KEY SHARE);
            CONTINUE WHEN v_queue_ids[i] IS NULL;
            PERFORM pg_advisory_xact_lock_shared(
                hashtextextended(v_groups[i], hashtextextended(v_queue_ids[i]::text, 0)));
            PERFORM pg_advisory_xact_lock(v_lock_ids[i]);
        END LOOP;
    ELSE
        SELECT array_agg(k.partition_id), array_agg(k.consumer_group), array_agg(k.queue_id)
        INTO v_partition_ids, v_groups, v_queue_ids
        FROM (
            SELECT l.partition_id, l.queue_id, u.consumer_group, u.lock_id
            FROM unnest(v_partition_ids, v_groups, v_lock_ids) AS u (partition_id, consumer_group, lock_id)
            JOIN queen.partition_lookup l ON l.partition_id = u.partition_id
            ORDER BY l.partition_id, u.consumer_group
            FOR KEY SHARE OF l SKIP LOCKED
        ) k
        WHERE pg_try_advisory_xact_lock_shared(
                  hashtextextended(k.consumer_group, hashtextextended(k.queue_id::text, 0)))
          AND pg_try_advisory_xact_lock(k.lock_id);
    END IF;

    -- Locked first, so this sees every start that is committed.
    INSERT INTO queen.partition_consumers (partition_id, consumer_group, queue_id, cursor_seq)
    SELECT u.partition_id, u.consumer_group, u.queue_id,
           -- Most groups begin at the oldest message, and start_seq takes longer than all the rest.
           CASE WHEN EXISTS (SELECT FROM queen.group_starts(q.name, u.consumer_group))
                THEN queen.start_seq(u.partition_id, u.consumer_group) ELSE 0 END
    FROM unnest(v_partition_ids, v_groups, v_queue_ids) AS u (partition_id, consumer_group, queue_id)
    JOIN queen.queues q ON q.id = u.queue_id
    ON CONFLICT (partition_id, consumer_group) DO NOTHING;
    RETURN coalesce(cardinality(array_remove(v_queue_ids, NULL)), 0);
END
$$;
