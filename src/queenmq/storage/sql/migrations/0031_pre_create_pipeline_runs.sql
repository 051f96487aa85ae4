-- Runs of all jobs on Spark, so that anybody can see what ran, how it ended and what it found. A job writes its row at
-- its start, about once a minute while it runs, and at its end, through start_pipeline_run and note_pipeline_run.
CREATE TABLE queen.pipeline_runs (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    job text COLLATE "C" NOT NULL,
    -- What it was asked to do: queues, lake, range.
    options json NOT NULL,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- The last sign of life. A run without one for some minutes was killed.
    seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at timestamptz,
    -- done, found: the work is done and something is wrong, failed: the work is not done.
    outcome text COLLATE "C" NOT NULL DEFAULT 'running',
    -- The summary that the job prints: one figure each, and the first rows of each table, findings among them.
    figures json NOT NULL DEFAULT '{}',
    tables json NOT NULL DEFAULT '{}',
    error text,
    CONSTRAINT pipeline_runs_check CHECK (
        job <> '' AND outcome IN ('running', 'done', 'found', 'failed')
        AND (finished_at IS NULL) = (outcome = 'running'))
);

-- Serves the list of runs, newest first, and forgetting the oldest.
CREATE INDEX pipeline_runs_started_at_idx ON queen.pipeline_runs (started_at DESC);
