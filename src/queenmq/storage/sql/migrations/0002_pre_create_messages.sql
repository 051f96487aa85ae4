-- Messages and, per partition, the row that numbers them.

-- No foreign key: a check per row costs 40 % of the insert, and partitions are only removed by
-- delete_queue, which holds the partition's lookup row and removes its messages first.
CREATE TABLE queen.messages (
    partition_id uuid NOT NULL,
    -- Dense within the partition and in commit order: allocated under the lookup row's lock.
    seq bigint NOT NULL,
    id uuid NOT NULL,
    queue_id uuid NOT NULL,
    -- NULL when the producer gave none; its transaction id then is the message id.
    transaction_id text COLLATE "C",
    trace_id uuid,
    -- Never decreases within a partition (see push_messages).
    created_at timestamptz NOT NULL,
    -- The pushing transaction: a reader that bounds it by a snapshot's xmin reads stable ranges.
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    producer_sub text,
    is_encrypted boolean NOT NULL DEFAULT false,
    -- json, not jsonb: what the producer sent comes back byte for byte.
    payload json NOT NULL,
    -- Serves every pop: the messages of a partition after a cursor.
    CONSTRAINT messages_pkey PRIMARY KEY (partition_id, seq)
) WITH (
    -- Insert-only between retention runs: vacuum by inserts keeps the visibility map fresh.
    autovacuum_vacuum_insert_scale_factor = 0.1,
    autovacuum_vacuum_scale_factor = 0.05
);

-- Serves the duplicate check of push and the look-up by transaction id of ack. Partial: messages
-- without a given id cost nothing here.
CREATE UNIQUE INDEX messages_partition_id_transaction_id_idx
    ON queen.messages (partition_id, transaction_id) WHERE transaction_id IS NOT NULL;

-- Serves readers that follow a queue by transaction horizon.
CREATE INDEX messages_queue_id_xid_idx ON queen.messages (queue_id, xid);

-- One row per partition: the lock that serialises its pushes, its sequence, and what pop needs to know
-- about its newest message without touching queen.messages.
CREATE TABLE queen.partition_lookup (
    partition_id uuid PRIMARY KEY,
    queue_id uuid NOT NULL,
    -- The lowest sequence number that retention has left in place.
    first_seq bigint NOT NULL DEFAULT 1,
    last_seq bigint NOT NULL DEFAULT 0,
    last_message_id uuid,
    last_message_created_at timestamptz,
    CONSTRAINT partition_lookup_seq_check CHECK (first_seq >= 1 AND last_seq >= first_seq - 1)
) WITH (
    -- Room for HOT updates: every push rewrites this row and no indexed column ever changes.
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_cost_delay = 0
);

-- Serves the search for partitions of a queue that have work.
CREATE INDEX partition_lookup_queue_id_idx ON queen.partition_lookup (queue_id);
