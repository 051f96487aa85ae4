-- The part of a message id that all messages of one push to one partition share; see message_id.
--
-- Arguments: the partition's number (partition_lookup) and the time of the push. It is a function of its own because
-- making text is expensive per row. It is one expression, so that PostgreSQL inlines it. Takes no
-- locks.
CREATE OR REPLACE FUNCTION queen.id_prefix(p_number bigint, p_created_at timestamptz)
RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    -- Ten digits: version, 12 bits, the variant with the two highest bits, 20 bits.
    SELECT lpad(to_hex(floor(extract(epoch FROM p_created_at) * 1000)::bigint), 12, '0')
           || to_hex((7::bigint << 36) | (((p_number >> 20) & 4095) << 24) | ((8 | (p_number >> 32)) << 20)
                     | (p_number & 1048575))
$$;
