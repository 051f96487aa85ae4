-- Remove a stream query with its state. A client that still runs it has its cycles refused.
-- Result: its source queue and the groups of its cycles, or the one that clients use unless told otherwise; no row
-- where there is no such query.
-- Tables: queen_streams.queries (delete), those of wipe_query. Locks: the query's row, then those of wipe_query.
CREATE OR REPLACE FUNCTION queen.delete_query(p_name text)
RETURNS TABLE (source_queue text, consumer_groups text[])
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    v_query record;
    v_groups text[];
BEGIN
    SELECT q.id, q.source_queue::text INTO v_query FROM queen_streams.queries q WHERE q.name = p_name FOR UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT array_agg(DISTINCT p.consumer_group::text) INTO v_groups
    FROM queen_streams.partitions p
    -- The cursors of queue mode belong to every consumer without a group.
    WHERE p.query_id = v_query.id AND p.consumer_group <> '__QUEUE_MODE__';
    PERFORM queen.wipe_query(v_query.id);
    DELETE FROM queen_streams.queries q WHERE q.id = v_query.id;
    RETURN QUERY SELECT v_query.source_queue, coalesce(v_groups, ARRAY['streams.' || p_name]);
END
$$;
