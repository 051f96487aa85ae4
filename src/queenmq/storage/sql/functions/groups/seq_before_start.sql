-- The last sequence number of a partition whose message is before a start, as is_before_start has it; where none
-- is, the number before the first message that is left.
--
-- A binary search over the primary key: neither created_at nor whether a snapshot sees a message goes back with
-- seq, and an index on them would cost every push. Holes left by deleted messages are stepped over. Messages that
-- a loader put between others do not bring the result beyond a message that is before the start. Takes no locks.
CREATE OR REPLACE FUNCTION queen.seq_before_start(p_partition_id uuid, p_time timestamptz, p_snapshot pg_snapshot)
RETURNS bigint
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_low bigint;
    v_high bigint;
    v_middle bigint;
    v_found record;
BEGIN
    SELECT first_seq - 1, last_seq + 1 INTO v_low, v_high
    FROM queen.partition_lookup WHERE partition_id = p_partition_id;
    -- Invariant: everything at or below v_low is before the start, everything at or above v_high is not.
    WHILE v_high - v_low > 1 LOOP
        v_middle := (v_low + v_high) / 2;
        SELECT m.seq, queen.is_before_start(m.created_at, m.xid, p_time, p_snapshot) AS is_before INTO v_found
        FROM queen.messages m
        WHERE m.partition_id = p_partition_id AND m.seq >= v_middle AND m.seq < v_high
        ORDER BY m.seq LIMIT 1;
        IF v_found.is_before THEN
            v_low := v_found.seq;
        ELSE
            v_high := v_middle;
        END IF;
    END LOOP;
    RETURN coalesce(v_low, 0);
END
$$;
