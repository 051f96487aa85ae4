-- A group that starts with what is new remembers a snapshot instead of a cursor in every partition.

ALTER TABLE queen.consumer_groups_metadata
    -- The transactions whose messages are before the start of a `new` group. NULL for a start at a time, and for
    -- `new` groups of before this column, which were given a cursor in every partition that there was.
    ADD COLUMN start_snapshot pg_snapshot,
    -- The transaction that wrote the snapshot. It is also the row's xmin, unless the row was loaded into another
    -- cluster, whose transaction ids the snapshot says nothing about.
    ADD COLUMN start_xid xid8,
    ADD CONSTRAINT consumer_groups_metadata_snapshot_check CHECK (
        (start_snapshot IS NULL) = (start_xid IS NULL)
        AND (start_snapshot IS NULL OR subscription_mode = 'new')
    );

-- The transaction of the newest message: with its time, enough to see that a partition has nothing after a start.
-- NULL: pushed before this column, hence before every snapshot, since no push is under way while it is added.
ALTER TABLE queen.partition_lookup ADD COLUMN last_xid xid8;
