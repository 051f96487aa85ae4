-- Partitions of a queue in id order, and one row per lease over several partitions.

-- Serves the search for partitions of a queue that have work, and its continuation after a partition
-- (search_onwards). Neither column ever changes, so updates stay HOT.
CREATE INDEX partition_lookup_queue_id_partition_id_idx ON queen.partition_lookup (queue_id, partition_id);
DROP INDEX queen.partition_lookup_queue_id_idx;

ALTER TABLE queen.lease_partitions
    -- All partitions of the lease, partition_id among them. NULL: partition_id is one of several rows.
    ADD COLUMN partition_ids uuid[];

-- A row lives for seconds under load: its lease ends, and the next sweep removes it.
ALTER TABLE queen.lease_partitions SET (
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_cost_delay = 0
);
