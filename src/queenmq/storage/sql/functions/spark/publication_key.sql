-- The key of the advisory lock that says: a batch of Spark is being published to this queue.
CREATE OR REPLACE FUNCTION queen.publication_key(p_queue_id uuid)
RETURNS bigint
LANGUAGE sql
IMMUTABLE
PARALLEL SAFE
RETURN hashtextextended(p_queue_id::text, 2);
