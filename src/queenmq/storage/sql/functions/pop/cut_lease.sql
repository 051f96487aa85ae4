-- End a new lease with the last message that is there, if those at the end of its range were deleted before.
--
-- An ack of that message then ends the lease. Otherwise the partition would wait until the lease expires, because
-- a consumer cannot ack a message that it never got. Does nothing to an empty range, or where there is no lease.
-- Result: the outcome of its candidate, always granted.
-- A function of its own, so that a pop without gaps does not pay for it.
-- Tables: partition_consumers (update), messages (read).
-- Locks: the cursor row, which the pop holds already.
CREATE OR REPLACE FUNCTION queen.cut_lease(
    p_partition_id uuid,
    p_consumer_group text,
    p_lease_id uuid,
    p_after_seq bigint,
    p_end_seq bigint
)
RETURNS text
LANGUAGE plpgsql
AS $$
BEGIN
    UPDATE queen.partition_consumers pc
    SET lease_end_seq = f.last_seq
    FROM (
        SELECT max(m.seq) AS last_seq FROM queen.messages m
        WHERE m.partition_id = p_partition_id AND m.seq > p_after_seq AND m.seq <= p_end_seq
    ) f
    WHERE pc.partition_id = p_partition_id AND pc.consumer_group = p_consumer_group
      AND pc.lease_id = p_lease_id AND f.last_seq < pc.lease_end_seq;
    RETURN 'granted';
END
$$;
