-- The partitions of a scope in which a group may have found work since a search that saw everything.
--
-- Arguments: p_partition_name names the one partition to look at. Otherwise p_horizon is the transaction
-- horizon of the last search (NULL: there was none) and p_known_ids are the partitions which that search,
-- or anything since, left behind with messages.
-- Result: partition ids; NULL means all of the scope. Everything that was not visible to the last search was
-- written by a transaction at or above its horizon, so what is new is found without a look at what is not.
-- More new messages than c_fresh_max, or a queue that was changed otherwise, are cheaper to search whole.
-- Plans as its callers have set it.
CREATE OR REPLACE FUNCTION queen.partitions_to_check(
    p_queue_name text,
    p_partition_name text,
    p_namespace text,
    p_task text,
    p_horizon xid8,
    p_known_ids uuid[]
)
RETURNS uuid[]
LANGUAGE plpgsql STABLE
AS $$
DECLARE
    c_fresh_max CONSTANT integer := 5000;
    v_queue_ids uuid[];
    v_is_changed boolean;
    v_fresh uuid[];
    v_count bigint;
BEGIN
    IF p_partition_name IS NOT NULL THEN
        RETURN ARRAY(
            SELECT p.id FROM queen.queues q JOIN queen.partitions p ON p.queue_id = q.id
            WHERE q.name = p_queue_name AND p.name = p_partition_name);
    END IF;
    IF p_horizon IS NULL THEN
        RETURN NULL;
    END IF;
    SELECT array_agg(q.id), bool_or(q.changed_xid >= p_horizon) INTO v_queue_ids, v_is_changed
    FROM queen.queues_in_scope(p_queue_name, p_namespace, p_task) q;
    IF v_is_changed THEN
        RETURN NULL;
    END IF;
    SELECT array_agg(DISTINCT f.partition_id), count(*) INTO v_fresh, v_count
    FROM (SELECT m.partition_id FROM queen.messages m
          WHERE m.queue_id = ANY (v_queue_ids) AND m.xid >= p_horizon LIMIT c_fresh_max) f;
    IF v_count = c_fresh_max THEN
        RETURN NULL;
    END IF;
    IF v_count = 0 OR cardinality(p_known_ids) = 0 THEN
        RETURN coalesce(v_fresh, p_known_ids);
    END IF;
    RETURN ARRAY(SELECT u.id FROM unnest(v_fresh) AS u (id) UNION SELECT u.id FROM unnest(p_known_ids) AS u (id));
END
$$;
