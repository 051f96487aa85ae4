-- Accepted work that waits its turn, and what all brokers share.

-- Pushes that were accepted while the broker was under pressure, or that have to stay behind such pushes.
-- One row per request and partition. Only pushes wait here: an ack is never confirmed before it is done.
CREATE TABLE queen.operation_queue (
    -- UUIDv7, made by queue_push. Tells nothing about the order; seq does.
    id uuid PRIMARY KEY,
    operation_type text NOT NULL,
    queue_name text COLLATE "C" NOT NULL,
    partition_name text COLLATE "C" NOT NULL,
    queue_id uuid NOT NULL,
    partition_id uuid NOT NULL,
    -- Given out under a lock per partition that is held to commit: operations become visible in this order.
    seq bigint NOT NULL,
    -- 1 is most urgent.
    priority integer NOT NULL,
    -- The items as they were pushed, a list per column; dropped when they are stored.
    payload json NOT NULL,
    item_count integer NOT NULL,
    estimated_size bigint NOT NULL,
    reason text NOT NULL,
    status text NOT NULL DEFAULT 'pending',
    -- Whether later pushes to the partition have to wait for this one.
    is_blocking boolean NOT NULL DEFAULT true,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Not before this; in the future after a run that failed.
    next_run_at timestamptz NOT NULL DEFAULT '-infinity',
    processing_started_at timestamptz,
    processed_at timestamptz,
    claimed_by_worker text,
    -- Made anew for each claim: who was too slow and lost its claim cannot complete it any more.
    claim_token uuid,
    timeout_seconds integer NOT NULL DEFAULT 30,
    -- Runs that failed.
    retry_count integer NOT NULL DEFAULT 0,
    max_retries integer NOT NULL DEFAULT 3,
    error_message text,
    last_error_at timestamptz,
    -- One element per item, as a push answers.
    result json,
    -- Serves the claim of what is next in a partition.
    CONSTRAINT operation_queue_partition_id_seq_key UNIQUE (partition_id, seq),
    CONSTRAINT operation_queue_type_check CHECK (operation_type = 'PUSH'),
    CONSTRAINT operation_queue_names_check CHECK (queue_name <> '' AND partition_name <> ''),
    CONSTRAINT operation_queue_numbers_check CHECK (
        seq > 0 AND priority BETWEEN 1 AND 10 AND item_count > 0 AND estimated_size >= 0
        AND timeout_seconds > 0 AND max_retries > 0 AND retry_count BETWEEN 0 AND max_retries
    ),
    CONSTRAINT operation_queue_reason_check CHECK (reason IN ('maintaining_order', 'system_busy')),
    CONSTRAINT operation_queue_status_check CHECK (
        status IN ('pending', 'processing', 'completed', 'failed', 'discarded')
    ),
    CONSTRAINT operation_queue_claim_check CHECK (
        (status = 'processing') = (claim_token IS NOT NULL)
        AND (claim_token IS NULL) = (processing_started_at IS NULL)
        AND (claim_token IS NULL) = (claimed_by_worker IS NULL)
    ),
    CONSTRAINT operation_queue_end_check CHECK (
        (status IN ('completed', 'failed', 'discarded')) = (processed_at IS NOT NULL)
        AND (status = 'completed') = (result IS NOT NULL)
        AND (status <> 'failed' OR error_message IS NOT NULL)
    ),
    CONSTRAINT operation_queue_blocking_check CHECK (
        CASE WHEN status IN ('pending', 'processing') THEN is_blocking
             WHEN status IN ('completed', 'discarded') THEN NOT is_blocking
             ELSE true END
    )
) WITH (
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_cost_delay = 0
);

-- Rows live for seconds; compressing them would cost more than storing the messages does.
ALTER TABLE queen.operation_queue ALTER COLUMN payload SET STORAGE EXTERNAL;

-- Serves every push (does anything wait here?) and the depth; empty as long as nothing waits.
CREATE INDEX operation_queue_blocking_idx ON queen.operation_queue (partition_id, seq) WHERE is_blocking;

-- Serves the lists by status, newest first.
CREATE INDEX operation_queue_status_idx ON queen.operation_queue (status, created_at);

ALTER TABLE queen.queues
    -- What a failed operation means for the pushes behind it: they wait until somebody retries or
    -- discards it, or they go on without it.
    ADD COLUMN on_failed_operation text NOT NULL DEFAULT 'stop',
    ADD CONSTRAINT queues_on_failed_operation_check CHECK (on_failed_operation IN ('stop', 'continue'));

-- Switches that all brokers obey, by name.
CREATE TABLE queen.system_state (
    name text PRIMARY KEY,
    value json NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now()
);

-- Tells one database from another: a broker's spool belongs to one of them.
INSERT INTO queen.system_state (name, value) VALUES ('database_id', to_json(gen_random_uuid()));
