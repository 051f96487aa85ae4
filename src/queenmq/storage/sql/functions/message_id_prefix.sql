-- The part of a message id that all messages of one push to one partition share; see message_id.
--
-- A function of its own because it takes text of a UUID apart, which is dear by the row. One expression, so
-- that callers get it in place of the call. Takes no locks.
CREATE OR REPLACE FUNCTION queen.message_id_prefix(p_partition_id uuid, p_created_at timestamptz)
RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT lpad(to_hex(floor(extract(epoch FROM p_created_at) * 1000)::bigint), 12, '0')
           || '7' || substr(p_partition_id::text, 1, 3) || '8' || substr(p_partition_id::text, 4, 5)
$$;
