-- Retention: what it may remove, and what it has removed.

ALTER TABLE queen.queues
    -- Only what the archive has taken over may go, by whichever rule (archive_marks).
    ADD COLUMN archive_before_delete boolean NOT NULL DEFAULT false;

-- How many messages went, by minute, queue and rule. Rows older than a month are swept. No foreign key: the
-- history of a queue outlives it.
CREATE TABLE queen.retention_history (
    bucket timestamptz NOT NULL,
    queue_id uuid NOT NULL,
    -- Older than retention_seconds, and not passed by every group.
    retention_messages bigint NOT NULL DEFAULT 0,
    -- Passed by every group for completed_retention_seconds.
    completed_messages bigint NOT NULL DEFAULT 0,
    -- Taken by nobody within max_wait_time_seconds.
    evicted_messages bigint NOT NULL DEFAULT 0,
    -- Transactions that removed any.
    events bigint NOT NULL DEFAULT 0,
    -- Serves the chart of a time range and the sweep.
    CONSTRAINT retention_history_pkey PRIMARY KEY (bucket, queue_id)
);
