-- Lock the partitions that a transaction pushes to and acks in, so that no session deletes one half-way through.
--
-- Arguments: the partitions of its pushes and of its acks, in any order.
-- Result: those of its pushes that a batch of Spark is being published to. Their items have to be queued: waiting for
-- the batch could take as long as a lease lasts. No partition: an empty array.
-- Tables: partition_lookup (row locks).
-- Locks: lookup rows in partition id order, in one pass, each as strongly as it will be needed: FOR NO KEY UPDATE for
-- a push, FOR KEY SHARE for an ack or a push that is queued. A row that is locked once more, and more strongly,
-- after later ones is out of order.
CREATE OR REPLACE FUNCTION queen.lock_partitions(p_pushed_ids uuid[], p_acked_ids uuid[])
RETURNS uuid[]
LANGUAGE plpgsql
AS $$
DECLARE
    v_id uuid;
    v_held uuid[] := '{}';
BEGIN
    FOR v_id IN SELECT DISTINCT u.id FROM unnest(p_pushed_ids || p_acked_ids) AS u (id) ORDER BY u.id
    LOOP
        IF v_id = ANY (p_pushed_ids) THEN
            PERFORM FROM queen.partition_lookup WHERE partition_id = v_id FOR NO KEY UPDATE SKIP LOCKED;
            CONTINUE WHEN FOUND;
            -- The look at the locks of the server is not free, so only now.
            IF cardinality(queen.find_publishing(ARRAY[v_id])) = 0 THEN
                PERFORM FROM queen.partition_lookup WHERE partition_id = v_id FOR NO KEY UPDATE;
                CONTINUE;
            END IF;
            v_held := v_held || v_id;
        END IF;
        PERFORM FROM queen.partition_lookup WHERE partition_id = v_id FOR KEY SHARE;
    END LOOP;
    RETURN v_held;
END
$$;
