-- Register a stream query, or resume it.
--
-- Arguments: p_reset: wipe the state of a query whose configuration has changed, or has not, and take the new one;
-- p_keeps_source: a query that reads another queue is not the caller's, and is left as it is.
-- Result: the query's id, NULL for one that is not the caller's; is_fresh: it was not known before; is_reset: its state was wiped; known_hash: the
-- configuration it has. Where that is another than p_config_hash, nothing was changed.
-- Tables: queen_streams.queries (insert, update), those of wipe_query.
-- Locks: the query's row; for a reset those of wipe_query.
CREATE OR REPLACE FUNCTION queen.register_query(
    p_name text,
    p_source_queue text,
    p_sink_queue text,
    p_config_hash text,
    p_reset boolean,
    p_keeps_source boolean,
    OUT query_id uuid,
    OUT is_fresh boolean,
    OUT is_reset boolean,
    OUT known_hash text
)
LANGUAGE plpgsql
AS $$
DECLARE
    v_source text;
BEGIN
    is_fresh := false;
    is_reset := false;
    LOOP
        SELECT q.id, q.config_hash, q.source_queue INTO query_id, known_hash, v_source
        FROM queen_streams.queries q WHERE q.name = p_name FOR UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO queen_streams.queries (name, source_queue, sink_queue, config_hash)
        VALUES (p_name, p_source_queue, p_sink_queue, p_config_hash)
        ON CONFLICT (name) DO NOTHING
        RETURNING id INTO query_id;
        IF FOUND THEN
            is_fresh := true;
            known_hash := p_config_hash;
            RETURN;
        END IF;
    END LOOP;
    IF p_keeps_source AND v_source <> p_source_queue THEN
        query_id := NULL;
        known_hash := NULL;
        RETURN;
    END IF;
    IF p_reset THEN
        PERFORM queen.wipe_query(query_id);
        is_reset := true;
        known_hash := p_config_hash;
    END IF;
    IF known_hash = p_config_hash THEN
        UPDATE queen_streams.queries q
        SET source_queue = p_source_queue, sink_queue = p_sink_queue, config_hash = p_config_hash,
            registered_at = clock_timestamp(),
            last_error = CASE WHEN NOT p_reset THEN q.last_error END,
            last_error_at = CASE WHEN NOT p_reset THEN q.last_error_at END
        WHERE q.id = query_id;
    END IF;
END
$$;
