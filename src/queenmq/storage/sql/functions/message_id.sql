-- The id of a message: a UUIDv7 that also says where the message is. 48 bits of milliseconds, version 7, 32
-- bits of the partition id around the variant, 40 bits of seq. Within a partition ids ascend with seq, and
-- seq_of_message_id leads from an id to the primary key, so queen.messages needs no index on id.
--
-- Arguments: what message_id_prefix says, and the message's seq. One expression, so that callers get it in
-- place of the call. Takes no locks.
CREATE OR REPLACE FUNCTION queen.message_id(p_prefix text, p_seq bigint)
RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT (p_prefix || lpad(to_hex(p_seq & ((1::bigint << 40) - 1)), 10, '0'))::uuid
$$;
