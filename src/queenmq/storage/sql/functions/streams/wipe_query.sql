-- Delete the state and the positions of a stream query. Its consumer group stays.
-- Tables: queen_streams.state, queen_streams.partitions (delete).
-- Locks: the advisory lock of the query, which waits for cycles in flight and holds new ones up.
CREATE OR REPLACE FUNCTION queen.wipe_query(p_query_id uuid)
RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(p_query_id::text, 2));
    DELETE FROM queen_streams.state s WHERE s.query_id = p_query_id;
    DELETE FROM queen_streams.partitions p WHERE p.query_id = p_query_id;
END
$$;
