-- Spark's tasks stage lists: what a task has for a partition, many messages a row. Numbering and joining is by
-- the row, so that a publication does little more than the insert.

-- Batches that were staged but not published: publish_staged misses their rows and refuses them, and Spark
-- runs them again. Altered and not made anew, because writers were granted rights on it.
TRUNCATE queen.spark_staging;

ALTER TABLE queen.spark_staging
    DROP COLUMN transaction_id,
    DROP COLUMN trace_id,
    DROP COLUMN payload,
    -- In their order. Text, because the driver of the tasks knows no arrays of JSON; the task has checked it.
    ADD COLUMN payloads text[] NOT NULL,
    -- As long as the payloads; NULL where no message has one.
    ADD COLUMN transaction_ids text[] COLLATE "C",
    ADD COLUMN trace_ids text[],
    ADD CONSTRAINT spark_staging_check CHECK (
        cardinality(transaction_ids) = cardinality(payloads) AND cardinality(trace_ids) = cardinality(payloads));

-- As operation_queue.payload.
ALTER TABLE queen.spark_staging ALTER COLUMN payloads SET STORAGE EXTERNAL;
