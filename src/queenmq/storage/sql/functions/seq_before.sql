-- The last sequence number of a partition whose message was created before p_time; where none was, the
-- number before the first message that is left.
--
-- A binary search over the primary key: created_at never decreases with seq, and an index on it would
-- cost every push. Holes left by deleted messages are stepped over.
CREATE OR REPLACE FUNCTION queen.seq_before(p_partition_id uuid, p_time timestamptz)
RETURNS bigint
LANGUAGE plpgsql STABLE
AS $$
DECLARE
    v_low bigint;
    v_high bigint;
    v_middle bigint;
    v_seq bigint;
    v_time timestamptz;
BEGIN
    SELECT first_seq - 1, last_seq + 1 INTO v_low, v_high
    FROM queen.partition_lookup WHERE partition_id = p_partition_id;
    -- Invariant: everything at or below v_low is before p_time, everything at or above v_high is not.
    WHILE v_high - v_low > 1 LOOP
        v_middle := (v_low + v_high) / 2;
        SELECT seq, created_at INTO v_seq, v_time FROM queen.messages
        WHERE partition_id = p_partition_id AND seq >= v_middle AND seq < v_high
        ORDER BY seq LIMIT 1;
        IF v_seq IS NULL OR v_time >= p_time THEN
            v_high := v_middle;
        ELSE
            v_low := v_seq;
        END IF;
    END LOOP;
    RETURN coalesce(v_low, 0);
END
$$;
