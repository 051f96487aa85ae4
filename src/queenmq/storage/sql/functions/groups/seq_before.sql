-- The last sequence number of a partition whose message was created before p_time; where none was, the
-- number before the first message that is left.
CREATE OR REPLACE FUNCTION queen.seq_before(p_partition_id uuid, p_time timestamptz)
RETURNS bigint
LANGUAGE sql STABLE
AS $$
    SELECT queen.seq_before_start(p_partition_id, p_time, NULL)
$$;
