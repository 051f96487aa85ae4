-- The message of a partition that has this transaction id: its own, or its message id if it was pushed
-- without one. No row if there is none.
--
-- One statement, so that callers get it in place of the call. Takes no locks.
CREATE OR REPLACE FUNCTION queen.find_stored(p_partition_id uuid, p_transaction_id text)
RETURNS TABLE (id uuid)
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    (SELECT m.id FROM queen.messages m
     WHERE m.partition_id = p_partition_id AND m.transaction_id = p_transaction_id)
    UNION ALL
    (SELECT m.id FROM queen.messages m
     -- The first condition looks at no message and spares the search for what is no id of ours.
     WHERE substr(p_transaction_id, 15, 1) = '7'
       AND m.partition_id = p_partition_id
       AND m.seq = queen.seq_of_message_id(p_partition_id, p_transaction_id)
       AND m.id::text = p_transaction_id AND m.transaction_id IS NULL)
    LIMIT 1
$$;
