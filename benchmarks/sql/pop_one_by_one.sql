-- Bench only: the requests of one call served one after the other, what a loop costs against a set.
--
-- Arguments: parallel arrays, one element per request; see queen.pop_messages_batch.
-- Result: one row per partition that was granted.
CREATE SCHEMA bench;

CREATE FUNCTION bench.pop_one_by_one(
    p_partition_ids uuid[],
    p_consumer_groups text[],
    p_batches integer[],
    p_auto_acks boolean[],
    p_lease_ids uuid[]
)
RETURNS TABLE (message_count bigint, messages text)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    FOR i IN 1 .. cardinality(p_partition_ids) LOOP
        RETURN QUERY
        SELECT g.message_count, g.messages
        FROM queen.pop_messages_batch(
            ARRAY[1], ARRAY[p_partition_ids[i]], ARRAY[p_consumer_groups[i]], ARRAY[p_batches[i]],
            ARRAY[p_auto_acks[i]], ARRAY[p_lease_ids[i]]) g
        WHERE g.outcome = 'granted';
    END LOOP;
END
$$;
