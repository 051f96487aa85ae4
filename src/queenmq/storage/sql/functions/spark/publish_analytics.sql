-- Store the results of a run of the analytics job. They replace those of the same run.
--
-- Arguments: p_run the row of analytics_runs, p_tables an array of rows per table of results, by the table's
-- name without its prefix, every row with the run's id. p_keep: how many runs to keep. The oldest are removed.
-- Result: how many rows were stored. Readers see all of the old or all of the new.
-- Tables: analytics_* (delete, insert).
-- Locks: the run's row, which the same run at the same time waits for; rows of forgotten runs that no session holds.
CREATE OR REPLACE FUNCTION queen.publish_analytics(p_run json, p_tables json, p_keep integer)
RETURNS bigint
LANGUAGE plpgsql
AS $$
DECLARE
    c_tables CONSTANT text[] := ARRAY['timeline', 'partitions', 'hottest', 'queues', 'groups', 'dead_letters',
                                      'producers', 'payload_sizes'];
    v_run queen.analytics_runs := json_populate_record(NULL::queen.analytics_runs, p_run);
    v_table text;
    v_rows bigint;
    v_stored bigint := 0;
BEGIN
    INSERT INTO queen.analytics_runs AS r (id, scope, from_time, to_time, bucket_seconds, messages)
    VALUES (v_run.id, v_run.scope, v_run.from_time, v_run.to_time, v_run.bucket_seconds, v_run.messages)
    ON CONFLICT (id) DO UPDATE SET messages = excluded.messages, finished_at = excluded.finished_at;
    FOREACH v_table IN ARRAY c_tables LOOP
        EXECUTE format('DELETE FROM queen.%I WHERE run_id = $1', 'analytics_' || v_table) USING v_run.id;
        EXECUTE format('INSERT INTO queen.%1$I SELECT * FROM json_populate_recordset(NULL::queen.%1$I, $1)',
                       'analytics_' || v_table)
        USING coalesce(p_tables -> v_table, '[]');
        GET DIAGNOSTICS v_rows = ROW_COUNT;
        v_stored := v_stored + v_rows;
    END LOOP;
    DELETE FROM queen.analytics_runs WHERE id IN (
        SELECT o.id FROM queen.analytics_runs o
        WHERE o.id NOT IN (SELECT n.id FROM queen.analytics_runs n ORDER BY n.finished_at DESC, n.id LIMIT p_keep)
        FOR UPDATE SKIP LOCKED);
    RETURN v_stored;
END
$$;
