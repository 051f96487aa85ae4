-- What is in a lake: how far each queue was archived, and up to which message each partition is safe there.

-- Written by `queen pipeline archive`. What the lake holds stands in its own log; here stands what was read back
-- from it and found equal to the live messages.
CREATE TABLE queen.archive_positions (
    -- The id of the lake's message table, which stays the same when the lake is moved.
    lake uuid NOT NULL,
    queue_id uuid NOT NULL REFERENCES queen.queues (id) ON DELETE CASCADE,
    -- Messages of all transactions below this one are in the lake, and verified.
    xid xid8 NOT NULL,
    -- Where the lake was found last; for people.
    location text NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT archive_positions_pkey PRIMARY KEY (lake, queue_id)
);

-- Serves the removal of a queue.
CREATE INDEX archive_positions_queue_id_idx ON queen.archive_positions (queue_id);

-- Every message of the partition up to archived_seq that is still there is in the lake, and verified: retention
-- may remove it from a queue that says archiveBeforeDelete. A partition has one mark; the first lake that marks
-- it keeps it until another one takes it on purpose.
CREATE TABLE queen.archive_marks (
    partition_id uuid PRIMARY KEY REFERENCES queen.partitions (id) ON DELETE CASCADE,
    lake uuid NOT NULL,
    archived_seq bigint NOT NULL,
    archived_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT archive_marks_seq_check CHECK (archived_seq >= 0)
);
