-- How far messages are, for people: a row per message, by its position in the arguments.
--
-- Result: status is dead_letter for a dead letter of any group; else, where the default group has a cursor in the
-- partition, its view (completed, processing under a live lease, pending), which is also queue_status; else
-- completed when all groups have passed it, processing when any has it under lease, pending otherwise.
-- passed_groups and named_groups: consumer groups but the default one with a cursor there, and those of them that
-- have passed it. lease_expires_at: of the lease that makes it processing. Takes no locks.
CREATE OR REPLACE FUNCTION queen.message_states(p_partition_ids uuid[], p_seqs bigint[])
RETURNS TABLE (
    ordinal bigint,
    status text,
    queue_status text,
    passed_groups text[],
    named_groups text[],
    lease_expires_at timestamptz
)
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    RETURN QUERY
    SELECT u.n,
           CASE WHEN EXISTS (SELECT FROM queen.dead_letter_queue d
                             WHERE d.partition_id = u.partition_id AND d.seq = u.seq) THEN 'dead_letter'
                WHEN g.default_state IS NOT NULL THEN g.default_state
                WHEN g.all_passed THEN 'completed'
                WHEN g.leased_until IS NOT NULL THEN 'processing'
                ELSE 'pending' END,
           g.default_state, g.passed, g.named,
           CASE WHEN g.default_state IS NULL THEN g.leased_until ELSE g.default_until END
    FROM unnest(p_partition_ids, p_seqs) WITH ORDINALITY AS u (partition_id, seq, n)
    CROSS JOIN LATERAL (
        SELECT min(s.state) FILTER (WHERE s.is_default) AS default_state,
               min(s.leased_until) FILTER (WHERE s.is_default) AS default_until,
               bool_and(s.state = 'completed') AS all_passed, max(s.leased_until) AS leased_until,
               coalesce(array_agg(s.name ORDER BY s.name)
                        FILTER (WHERE NOT s.is_default AND s.state = 'completed'), '{}') AS passed,
               coalesce(array_agg(s.name ORDER BY s.name) FILTER (WHERE NOT s.is_default), '{}') AS named
        FROM (
            SELECT pc.consumer_group::text AS name, pc.consumer_group = '__QUEUE_MODE__' AS is_default,
                   CASE WHEN pc.cursor_seq >= u.seq THEN 'completed' WHEN w.is_leased THEN 'processing'
                        ELSE 'pending' END AS state,
                   CASE WHEN w.is_leased THEN pc.lease_expires_at END AS leased_until
            FROM queen.partition_consumers pc
            CROSS JOIN LATERAL (
                SELECT pc.lease_expires_at > clock_timestamp() AND u.seq > pc.cursor_seq
                       AND u.seq <= pc.lease_end_seq AS is_leased
            ) w
            WHERE pc.partition_id = u.partition_id
        ) s
    ) g;
END
$$;
