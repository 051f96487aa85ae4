-- Return the states of messages for people: a row per message, by its position in the arguments.
--
-- Result: status is dead_letter for a dead letter of any group; else, where the default group is one of the queue,
-- its view (completed, processing under a live lease, pending), which is also queue_status; else completed when
-- all groups have passed it (message_groups), processing when any has it under lease, pending otherwise.
-- named_groups and passed_groups: consumer groups of the queue but the default one, and those of them that have
-- passed it. lease_expires_at: of the lease that makes it processing. Takes no locks.
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
           g.default_state, coalesce(g.passed, '{}'), coalesce(g.named, '{}'),
           CASE WHEN g.default_state IS NULL THEN g.leased_until ELSE g.default_until END
    FROM unnest(p_partition_ids, p_seqs) WITH ORDINALITY AS u (partition_id, seq, n)
    LEFT JOIN (
        SELECT s.ordinal, min(s.state) FILTER (WHERE s.is_default) AS default_state,
               min(s.leased_until) FILTER (WHERE s.is_default) AS default_until,
               bool_and(s.state = 'completed') AS all_passed, max(s.leased_until) AS leased_until,
               array_agg(s.name ORDER BY s.name)
                   FILTER (WHERE NOT s.is_default AND s.state = 'completed') AS passed,
               array_agg(s.name ORDER BY s.name) FILTER (WHERE NOT s.is_default) AS named
        FROM (
            SELECT m.ordinal, m.consumer_group AS name, m.consumer_group = '__QUEUE_MODE__' AS is_default,
                   CASE WHEN m.has_passed THEN 'completed' WHEN m.leased_until IS NOT NULL THEN 'processing'
                        ELSE 'pending' END AS state,
                   m.leased_until
            FROM queen.message_groups(p_partition_ids, p_seqs) m
        ) s
        GROUP BY s.ordinal
    ) g ON g.ordinal = u.n;
END
$$;
