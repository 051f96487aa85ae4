-- Note that a run of a job goes on, or how it ended.
--
-- Arguments: the run; running, done, found or failed; for a run that ended its figures and tables, both objects, and
-- the error that ended it. What is too large is left out: the job has printed it.
-- Result: whether the run was there and had not ended. A run ends once.
-- Runs with the rights of its owner, as start_pipeline_run does.
-- Tables: pipeline_runs (update).
-- Locks: the row of the run.
CREATE OR REPLACE FUNCTION queen.note_pipeline_run(
    p_id uuid,
    p_outcome text,
    p_figures json,
    p_tables json,
    p_error text
)
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    c_figures_bytes CONSTANT integer := 16384;
    c_tables_bytes CONSTANT integer := 262144;
BEGIN
    UPDATE queen.pipeline_runs r
    SET seen_at = clock_timestamp(),
        finished_at = CASE WHEN p_outcome <> 'running' THEN clock_timestamp() END,
        outcome = p_outcome,
        figures = CASE WHEN octet_length(p_figures::text) <= c_figures_bytes THEN p_figures ELSE '{}' END,
        tables = CASE WHEN octet_length(p_tables::text) <= c_tables_bytes THEN p_tables ELSE '{}' END,
        error = left(p_error, 2000)
    WHERE r.id = p_id AND r.finished_at IS NULL;
    RETURN FOUND;
END
$$;
