-- What tells a reader that the database is not the one that it has read before: marks that only the true history
-- has, and the queues that were deleted.

-- Written by a stream or an archive before it takes a position for read. A position whose mark is not there was
-- taken in a history that this database does not have, because it was restored from an older copy.
CREATE TABLE queen.reader_marks (
    -- stream:<its query> or lake:<id of the table>.
    reader text COLLATE "C" NOT NULL,
    -- A number that grows by one, and 24 random bits: the same number is given out again after a restore.
    mark bigint NOT NULL,
    -- The reader has everything below this transaction.
    xid xid8 NOT NULL,
    noted_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT reader_marks_pkey PRIMARY KEY (reader, mark),
    CONSTRAINT reader_marks_check CHECK (reader <> '' AND mark >= 0)
);

-- Queues that had messages when they were deleted, for three months: a reader that was not through with them has
-- lost those, also if there is a queue of the same name again.
CREATE TABLE queen.deleted_queues (
    id uuid PRIMARY KEY,
    name text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    task text COLLATE "C" NOT NULL,
    -- The transaction of its newest message.
    last_xid xid8 NOT NULL,
    deleted_xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    deleted_at timestamptz NOT NULL DEFAULT now()
);

-- Serves readers, who ask for what was deleted since they looked last.
CREATE INDEX deleted_queues_deleted_xid_idx ON queen.deleted_queues (deleted_xid);
