-- The seq inside a message id, or NULL when p_text cannot be the id of a message of this partition.
-- The caller still compares the id of the row it finds there, so the partition's number is not checked.
-- Ids that were made before partitions had numbers have 32 bits of the partition's id, and the variant's digit 8.
CREATE OR REPLACE FUNCTION queen.seq_of_message_id(p_partition_id uuid, p_text text)
RETURNS bigint
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
BEGIN
    -- The layout is explained in message_id.
    IF length(p_text) = 36
       AND (substr(p_text, 20, 1) <> '8'
            OR (substr(p_text, 16, 3) = substr(p_partition_id::text, 1, 3)
                AND substr(p_text, 21, 3) = substr(p_partition_id::text, 4, 3)
                AND substr(p_text, 25, 2) = substr(p_partition_id::text, 7, 2)))
       AND p_text ~ '^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$' THEN
        RETURN ('x' || right(p_text, 10))::bit(40)::bigint;
    END IF;
    RETURN NULL;
END
$$;
