-- Who has consumed what: cursors and leases per (partition, consumer group), remembered
-- subscription starts, and dead letters.

CREATE TABLE queen.partition_consumers (
    partition_id uuid NOT NULL,
    consumer_group text COLLATE "C" NOT NULL,
    queue_id uuid NOT NULL,
    -- Everything up to and including this sequence number has passed for the group.
    cursor_seq bigint NOT NULL DEFAULT 0,
    last_consumed_at timestamptz,
    -- When a pop last took something from here; the least recently served partition goes first.
    last_served_at timestamptz,
    -- The last lease given. It is live while lease_expires_at is set and in the future. A lease that its
    -- acks completed or failed keeps its id but has no expiry, so that a repeated ack is recognised.
    lease_id uuid,
    lease_expires_at timestamptz,
    lease_acquired_at timestamptz,
    lease_end_seq bigint,
    -- Failed acks of the message retry_seq; they mean nothing for any other message.
    retry_count integer NOT NULL DEFAULT 0,
    retry_seq bigint,
    retry_at timestamptz,
    -- Leases that ran out since the cursor last moved; see the poison-message rule.
    expiry_count integer NOT NULL DEFAULT 0,
    -- Up to here messages are leased one at a time.
    solo_until_seq bigint,
    -- The message that stopped this partition under onPoison = block.
    blocked_seq bigint,
    total_consumed bigint NOT NULL DEFAULT 0,
    total_batches bigint NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT partition_consumers_pkey PRIMARY KEY (partition_id, consumer_group),
    CONSTRAINT partition_consumers_lease_check CHECK (
        lease_expires_at IS NULL OR (lease_id IS NOT NULL AND lease_end_seq > cursor_seq)
    ),
    CONSTRAINT partition_consumers_retry_check CHECK (retry_count = 0 OR retry_seq > cursor_seq)
) WITH (
    -- Room for HOT updates: every pop and ack rewrites this row and no indexed column ever changes.
    fillfactor = 40,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_cost_delay = 0
);

-- Serves seek, group deletion and the group pages: all cursors of a group on a queue.
CREATE INDEX partition_consumers_queue_id_consumer_group_idx
    ON queen.partition_consumers (queue_id, consumer_group);

-- Where a lease id covers several partitions, which ones. A lease over one partition is found by
-- the partition bits inside its id and needs no row here.
CREATE TABLE queen.lease_partitions (
    lease_id uuid NOT NULL,
    partition_id uuid NOT NULL,
    consumer_group text COLLATE "C" NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT lease_partitions_pkey PRIMARY KEY (lease_id, partition_id)
);

-- Remembered starts. Keyed by names, because a group may subscribe before the queue exists.
CREATE TABLE queen.consumer_groups_metadata (
    queue_name text COLLATE "C" NOT NULL,
    consumer_group text COLLATE "C" NOT NULL,
    -- Empty: the whole queue.
    partition_name text COLLATE "C" NOT NULL DEFAULT '',
    subscription_mode text NOT NULL,
    subscription_timestamp timestamptz NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT consumer_groups_metadata_pkey PRIMARY KEY (queue_name, consumer_group, partition_name),
    CONSTRAINT consumer_groups_metadata_mode_check CHECK (subscription_mode IN ('new', 'timestamp'))
);

-- A copy, not a reference: retention of the message must not take the evidence with it.
CREATE TABLE queen.dead_letter_queue (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    queue_id uuid NOT NULL,
    partition_id uuid NOT NULL,
    consumer_group text COLLATE "C" NOT NULL,
    message_id uuid NOT NULL,
    seq bigint NOT NULL,
    transaction_id text COLLATE "C" NOT NULL,
    trace_id uuid,
    producer_sub text,
    is_encrypted boolean NOT NULL DEFAULT false,
    payload json NOT NULL,
    error_message text NOT NULL,
    retry_count integer NOT NULL,
    created_at timestamptz NOT NULL,
    failed_at timestamptz NOT NULL,
    CONSTRAINT dead_letter_queue_message_key UNIQUE (partition_id, consumer_group, seq)
);

-- Serves the dead-letter list of a queue, latest failure first.
CREATE INDEX dead_letter_queue_queue_id_failed_at_idx
    ON queen.dead_letter_queue (queue_id, failed_at DESC);

-- What a pop got of one candidate partition; see pop_sm_lease.
CREATE TYPE queen.pop_grant AS (
    request integer,
    partition_id uuid,
    consumer_group text,
    outcome text,
    lease_id uuid,
    after_seq bigint,
    end_seq bigint,
    attempts integer,
    has_more boolean,
    due_at timestamptz
);
