-- Find queues that were deleted with messages that a reader had not read.
--
-- Arguments: the queues that the reader is about, as JSON with "queues" (names), "pattern", "namespace" and "task",
-- each of which may be NULL; the transaction horizon when it looked last; the transaction below which it has
-- everything.
-- Result: their names, each once.
-- Runs with the rights of its owner: a role that may read queues may ask.
-- Tables: deleted_queues. Takes no locks.
CREATE OR REPLACE FUNCTION queen.find_deleted_queues(p_scope json, p_seen xid8, p_position xid8)
RETURNS TABLE (name text)
LANGUAGE sql STABLE
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT DISTINCT d.name::text
    FROM queen.deleted_queues d
    WHERE d.deleted_xid >= p_seen AND d.last_xid >= p_position
      AND (p_scope->>'queues' IS NULL OR d.name IN (SELECT json_array_elements_text(p_scope->'queues')))
      AND (p_scope->>'pattern' IS NULL OR d.name ~ ('^(?:' || (p_scope->>'pattern') || ')$'))
      AND (p_scope->>'namespace' IS NULL OR d.namespace = p_scope->>'namespace')
      AND (p_scope->>'task' IS NULL OR d.task = p_scope->>'task')
$$;
