-- What Spark writes: rows that tasks have staged, and which batches were published.

-- Rows of batches that are not published yet. Unlogged, which halves what staging writes: after a crash of
-- the server, or on a standby that took over, the table is empty, publish_staged then misses rows that the
-- tasks counted and refuses the batch, and Spark, which still has the input, runs it again. Rows live for
-- seconds; those that nobody came back for are swept after a day.
CREATE UNLOGGED TABLE queen.spark_staging (
    -- One per attempt of a task.
    stage_id uuid NOT NULL,
    -- The order within the task.
    ordinal bigint NOT NULL,
    queue text COLLATE "C" NOT NULL,
    partition text COLLATE "C" NOT NULL,
    transaction_id text COLLATE "C",
    trace_id uuid,
    created_at timestamptz NOT NULL DEFAULT now(),
    -- Text, because push_messages makes it JSON; the task has checked that it is.
    payload text NOT NULL,
    -- Serves publish_staged, discard_staged and the sweep, which jumps from stage to stage.
    CONSTRAINT spark_staging_pkey PRIMARY KEY (stage_id, ordinal)
) WITH (
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 0
);

-- As operation_queue.payload.
ALTER TABLE queen.spark_staging ALTER COLUMN payload SET STORAGE EXTERNAL;

-- Published batches: who is here is not published again. Of a stream the last hundred batches stay, as many
-- as its checkpoint could go back by; the newest for ever, for a stopped stream may come back at any time.
CREATE TABLE queen.spark_commits (
    -- stream:<query id of the checkpoint>, write:<the writer's own name for it> or, for a write that is never
    -- repeated, once:<random>; the last are swept after a day.
    query_id text COLLATE "C" NOT NULL,
    -- 0 for a batch write.
    batch_id bigint NOT NULL,
    committed_at timestamptz NOT NULL DEFAULT now(),
    messages bigint NOT NULL,
    CONSTRAINT spark_commits_pkey PRIMARY KEY (query_id, batch_id),
    CONSTRAINT spark_commits_check CHECK (query_id <> '' AND batch_id >= 0 AND messages >= 0)
);
