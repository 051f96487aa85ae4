-- The number of a partition, which its message ids hold (message_id); NULL if there is no such partition.
--
-- VOLATILE, so that a statement that has just made the partition sees it. Takes no locks.
CREATE OR REPLACE FUNCTION queen.partition_number(p_partition_id uuid)
RETURNS bigint
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    RETURN (SELECT l.number FROM queen.partition_lookup l WHERE l.partition_id = p_partition_id);
END
$$;
