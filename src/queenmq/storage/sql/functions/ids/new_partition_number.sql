-- The number of a new partition, for the ids of its messages (message_id): one that no partition had before.
--
-- 34 bits of an id hold it, so there are 3 * 2^32 of them. Takes no locks.
-- It runs with its owner's rights, so a role that may insert lookup rows needs none on the sequence.
-- Errors: 54000 all are used up.
CREATE OR REPLACE FUNCTION queen.new_partition_number()
RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    c_end CONSTANT bigint := 1::bigint << 34;
    v_number CONSTANT bigint := nextval('queen.partition_numbers');
BEGIN
    IF v_number >= c_end THEN
        RAISE EXCEPTION 'all % partition numbers are used; export the queues that are in use to a new database',
            c_end - (1::bigint << 32) USING ERRCODE = '54000';
    END IF;
    RETURN v_number;
END
$$;
