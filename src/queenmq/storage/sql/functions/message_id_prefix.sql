-- All but the last ten digits of a message id: a UUIDv7 that also says where the message is.
--
-- Layout: 48 bits of milliseconds, version 7, 32 bits of the partition id around the variant; the caller
-- appends 40 bits of seq. Within a partition ids ascend with seq, and a message is found by its id through
-- the primary key, so queen.messages needs no index on id. A prefix serves all messages that a push
-- stores in one partition.
CREATE OR REPLACE FUNCTION queen.message_id_prefix(p_partition_id uuid, p_created_at timestamptz)
RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN lpad(to_hex(floor(extract(epoch FROM p_created_at) * 1000)::bigint), 12, '0')
    || '7' || substr(p_partition_id::text, 1, 3)
    || '8' || substr(p_partition_id::text, 4, 3)
    || substr(p_partition_id::text, 7, 2);
