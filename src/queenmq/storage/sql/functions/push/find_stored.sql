-- The message of a partition that has this transaction id: its own, or its message id if it was pushed
-- without one. No row if there is none.
--
-- Arguments: p_prefix, what ids of the partition begin with (id_prefix, of any time), or NULL.
-- One statement, so that PostgreSQL inlines it. Takes no locks.
CREATE OR REPLACE FUNCTION queen.find_stored(p_partition_id uuid, p_transaction_id text, p_prefix text)
RETURNS TABLE (id uuid)
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    (SELECT m.id FROM queen.messages m
     WHERE m.partition_id = p_partition_id AND m.transaction_id = p_transaction_id)
    UNION ALL
    (SELECT m.id FROM queen.messages m
     -- The first condition looks at no message and spares nearly all the search: producers may give UUIDs of
     -- version 7, too. See seq_of_message_id for the digit 8.
     WHERE substr(p_transaction_id, 15, 1) = '7'
       AND CASE WHEN substr(p_transaction_id, 20, 1) = '8'
                THEN substr(p_transaction_id, 16, 3) = left(p_partition_id::text, 3)
                ELSE p_prefix IS NULL
                     OR substr(p_transaction_id, 15, 4) || substr(p_transaction_id, 20, 4)
                        || substr(p_transaction_id, 25, 2) = right(p_prefix, 10) END
       AND m.partition_id = p_partition_id
       AND m.seq = queen.seq_of_message_id(p_partition_id, p_transaction_id)
       AND m.id::text = p_transaction_id AND m.transaction_id IS NULL)
    LIMIT 1
$$;
