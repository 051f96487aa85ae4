-- Release a granted range that holds nothing. Result: the outcome of its candidate, always again.
--
-- A function of its own, so that a pop which finds messages does not pay for the start of pop_sm_release.
-- Tables and locks: those of pop_sm_release.
CREATE OR REPLACE FUNCTION queen.return_empty(
    p_partition_id uuid,
    p_consumer_group text,
    p_lease_id uuid,
    p_end_seq bigint
)
RETURNS text
LANGUAGE plpgsql
AS $$
BEGIN
    PERFORM FROM queen.pop_sm_release(ARRAY[p_partition_id], ARRAY[p_consumer_group], ARRAY[p_lease_id],
                                      ARRAY[p_end_seq]);
    RETURN 'again';
END
$$;
