-- Write down that a run of a job begins, and forget the oldest runs.
--
-- Arguments: the name of the job; its options, an object.
-- Result: the id of the run, for note_pipeline_run. The newest 200 runs of each job stay, and 2000 of all jobs.
-- Runs with the rights of its owner: a role that may read queues may say what its jobs did.
-- Tables: pipeline_runs (insert, delete).
-- Locks: rows of forgotten runs that no session holds.
CREATE OR REPLACE FUNCTION queen.start_pipeline_run(p_job text, p_options json)
RETURNS uuid
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    c_kept_of_job CONSTANT bigint := 200;
    c_kept CONSTANT bigint := 2000;
    c_options_bytes CONSTANT integer := 16384;
    v_id uuid;
BEGIN
    INSERT INTO queen.pipeline_runs (job, options)
    VALUES (left(p_job, 100),
            CASE WHEN octet_length(p_options::text) <= c_options_bytes THEN p_options ELSE '{}' END)
    RETURNING id INTO v_id;
    DELETE FROM queen.pipeline_runs WHERE id IN (
        SELECT o.id FROM queen.pipeline_runs o
        WHERE o.id IN (
            SELECT n.id FROM (
                SELECT r.id, row_number() OVER (PARTITION BY r.job ORDER BY r.started_at DESC, r.id) AS of_job,
                       row_number() OVER (ORDER BY r.started_at DESC, r.id) AS of_all
                FROM queen.pipeline_runs r
            ) n
            WHERE n.of_job > c_kept_of_job OR n.of_all > c_kept)
        FOR UPDATE SKIP LOCKED);
    RETURN v_id;
END
$$;
