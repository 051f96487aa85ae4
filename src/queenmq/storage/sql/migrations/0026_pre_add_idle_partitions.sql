-- Partitions come and go: one that is empty and idle for long enough is removed.

ALTER TABLE queen.queues
    -- After how many seconds without a push, pop or ack an empty partition goes; 0: never.
    ADD COLUMN partition_idle_seconds integer NOT NULL DEFAULT 2592000,
    ADD CONSTRAINT queues_partition_idle_check CHECK (partition_idle_seconds >= 0);

ALTER TABLE queen.retention_history
    -- Empty partitions that went, see remove_idle_partitions.
    ADD COLUMN removed_partitions bigint NOT NULL DEFAULT 0;
