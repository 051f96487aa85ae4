-- The id of a message: a UUIDv7 that also says where the message is. 48 bits of milliseconds, version 7, 12 bits
-- of the partition's number, two more in the variant's digit, 20 more, 40 bits of seq. No two partitions have the
-- same number and no two messages of a partition the same seq, so ids do not repeat. Within a partition they
-- ascend with seq, and seq_of_message_id leads from an id to the primary key, so queen.messages needs no index on
-- id.
--
-- Arguments: what id_prefix says, and the message's seq. It is one expression, so that PostgreSQL inlines it. Takes no
-- locks.
CREATE OR REPLACE FUNCTION queen.message_id(p_prefix text, p_seq bigint)
RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT (p_prefix || lpad(to_hex(p_seq & ((1::bigint << 40) - 1)), 10, '0'))::uuid
$$;
