-- The ids of partitions by name, creating the queues and partitions that do not exist.
--
-- Arguments: parallel arrays of queue and partition names, without repeats.
-- Result: one row per pair. A queue made here gets its namespace and task from the parts of its name
-- before the first and second dot, and default options.
-- Tables: queues, partitions, partition_lookup (insert).
-- Locks: the new rows, in name order, so two brokers that create the same partitions cannot deadlock.
-- Errors: 55P03 a row that another transaction is creating stayed locked for p_lock_timeout_ms.
CREATE OR REPLACE FUNCTION queen.ensure_partitions(
    p_queue_names text[],
    p_partition_names text[],
    p_lock_timeout_ms integer
)
RETURNS TABLE (
    queue_name text,
    partition_name text,
    partition_id uuid,
    queue_id uuid,
    namespace text,
    task text,
    is_encrypted boolean
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    v_wanted bigint;
    v_locked bigint;
BEGIN
    IF p_lock_timeout_ms IS NOT NULL THEN
        PERFORM set_config('lock_timeout', p_lock_timeout_ms::text, true);
    END IF;
    SELECT count(DISTINCT name) INTO v_wanted FROM unnest(p_queue_names) AS u (name);
    LOOP
        INSERT INTO queen.queues (name, namespace, task)
        SELECT DISTINCT u.name COLLATE "C",
               CASE WHEN strpos(u.name, '.') > 0 THEN split_part(u.name, '.', 1) ELSE '' END,
               CASE WHEN strpos(u.name, '.') > 0 THEN split_part(u.name, '.', 2) ELSE '' END
        FROM unnest(p_queue_names) AS u (name)
        WHERE NOT EXISTS (SELECT FROM queen.queues q WHERE q.name = u.name)
        ORDER BY 1
        ON CONFLICT (name) DO NOTHING;

        -- A queue that is being deleted must not get a partition on the way out: wait for its end and
        -- make a new one.
        PERFORM FROM queen.queues q WHERE q.name = ANY (p_queue_names) ORDER BY q.name FOR KEY SHARE;
        GET DIAGNOSTICS v_locked = ROW_COUNT;
        EXIT WHEN v_locked = v_wanted;
    END LOOP;

    WITH made AS (
        INSERT INTO queen.partitions (queue_id, name)
        SELECT q.id, u.partition_name
        FROM unnest(p_queue_names, p_partition_names) AS u (queue_name, partition_name)
        JOIN queen.queues q ON q.name = u.queue_name
        WHERE NOT EXISTS (
            SELECT FROM queen.partitions p WHERE p.queue_id = q.id AND p.name = u.partition_name
            -- By both columns of the index: a plan made while a queue was small is kept when it has grown.
            OFFSET 0)
        ORDER BY q.id, u.partition_name
        ON CONFLICT (queue_id, name) DO NOTHING
        RETURNING id, queue_id
    )
    INSERT INTO queen.partition_lookup (partition_id, queue_id) SELECT id, queue_id FROM made;

    RETURN QUERY
    SELECT u.queue_name, u.partition_name, p.id, q.id, q.namespace::text, q.task::text,
           q.encryption_enabled
    FROM unnest(p_queue_names, p_partition_names) AS u (queue_name, partition_name)
    JOIN queen.queues q ON q.name = u.queue_name
    CROSS JOIN LATERAL (
        SELECT x.id FROM queen.partitions x WHERE x.queue_id = q.id AND x.name = u.partition_name OFFSET 0
    ) p;
END
$$;
