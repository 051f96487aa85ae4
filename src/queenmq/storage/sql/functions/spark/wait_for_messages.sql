-- Wait until a reader that has everything below a transaction has something to read.
--
-- Arguments: the queues that the reader is about, as find_deleted_queues has them, with "partitions" (names, or NULL
-- for all); the transaction; how long to wait, 0 for a single poll.
-- Result: whether there is something. With "partitions" it may be something that an open transaction holds back.
-- One call replaces the many polls of an idle reader. It polls 20 times a second, or less often where a poll takes
-- long, and never longer than half the statement_timeout. Each poll has its own snapshot: the function is VOLATILE.
-- Tables: queues, partitions, partition_lookup, messages (read). Takes no locks.
CREATE OR REPLACE FUNCTION queen.wait_for_messages(p_scope json, p_xid xid8, p_wait_ms integer)
RETURNS boolean
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    c_pause_s CONSTANT double precision := 0.05;
    -- A look costs at most this part of a core.
    c_share CONSTANT double precision := 0.05;
    c_timeout_ms CONSTANT integer := (SELECT s.setting FROM pg_settings s WHERE s.name = 'statement_timeout');
    c_wait_ms CONSTANT integer := CASE WHEN c_timeout_ms > 0 THEN least(p_wait_ms, c_timeout_ms / 2)
                                       ELSE p_wait_ms END;
    v_end CONSTANT timestamptz := clock_timestamp() + make_interval(secs => c_wait_ms / 1000.0);
    v_began timestamptz;
    v_found boolean;
BEGIN
    LOOP
        v_began := clock_timestamp();
        SELECT EXISTS (
            SELECT FROM queen.queues q
            WHERE (p_scope->>'queues' IS NULL OR q.name IN (SELECT json_array_elements_text(p_scope->'queues')))
              AND (p_scope->>'pattern' IS NULL OR q.name ~ ('^(?:' || (p_scope->>'pattern') || ')$'))
              AND (p_scope->>'namespace' IS NULL OR q.namespace = p_scope->>'namespace')
              AND (p_scope->>'task' IS NULL OR q.task = p_scope->>'task')
              AND CASE WHEN p_scope->>'partitions' IS NULL
                  THEN EXISTS (SELECT FROM queen.messages m
                               WHERE m.queue_id = q.id AND m.xid >= p_xid
                                 AND m.xid < pg_snapshot_xmin(pg_current_snapshot()))
                  ELSE EXISTS (SELECT FROM queen.partitions p
                               JOIN queen.partition_lookup l ON l.partition_id = p.id
                               WHERE p.queue_id = q.id AND l.last_xid >= p_xid
                                 AND p.name IN (SELECT json_array_elements_text(p_scope->'partitions')))
                  END
        ) INTO v_found;
        IF v_found OR clock_timestamp() >= v_end THEN
            RETURN v_found;
        END IF;
        PERFORM pg_sleep(least(
            greatest(c_pause_s, extract(epoch FROM clock_timestamp() - v_began) / c_share),
            greatest(0.001, extract(epoch FROM v_end - clock_timestamp()))));
    END LOOP;
END
$$;
