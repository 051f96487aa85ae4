-- The sequence number of a message by its transaction id, or NULL when the partition has no such message.
-- An id may also be that of a message that was pushed without one. Takes no locks.
CREATE OR REPLACE FUNCTION queen.find_message(p_partition_id uuid, p_transaction_id text)
RETURNS bigint
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    RETURN coalesce(
        (SELECT m.seq FROM queen.messages m
         WHERE m.partition_id = p_partition_id AND m.transaction_id = p_transaction_id),
        (SELECT m.seq FROM queen.messages m
         WHERE m.partition_id = p_partition_id
           AND m.seq = queen.seq_of_message_id(p_partition_id, p_transaction_id)
           AND m.id::text = p_transaction_id AND m.transaction_id IS NULL));
END
$$;
