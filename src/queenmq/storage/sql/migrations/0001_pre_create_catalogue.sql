-- The catalogue: which queues and partitions exist. Read rarely (brokers cache the ids), written once
-- per queue and partition, so the push path never touches it.

CREATE TABLE queen.queues (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    name text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL DEFAULT '',
    task text COLLATE "C" NOT NULL DEFAULT '',
    priority integer NOT NULL DEFAULT 0,
    -- Seconds; 0 means the fixed fallback of 60.
    lease_time integer NOT NULL DEFAULT 300,
    retry_limit integer NOT NULL DEFAULT 3,
    -- Milliseconds between a failed ack and the redelivery; 0 redelivers at once.
    retry_delay integer NOT NULL DEFAULT 0,
    -- Messages that may wait in the queue; 0 means no bound.
    max_size bigint NOT NULL DEFAULT 0,
    ttl integer NOT NULL DEFAULT 3600,
    dead_letter_queue boolean NOT NULL DEFAULT false,
    dlq_after_max_retries boolean NOT NULL DEFAULT false,
    delayed_processing integer NOT NULL DEFAULT 0,
    window_buffer integer NOT NULL DEFAULT 0,
    retention_seconds integer NOT NULL DEFAULT 0,
    completed_retention_seconds integer NOT NULL DEFAULT 0,
    retention_enabled boolean NOT NULL DEFAULT false,
    encryption_enabled boolean NOT NULL DEFAULT false,
    max_wait_time_seconds integer NOT NULL DEFAULT 0,
    on_poison text NOT NULL DEFAULT 'dlq',
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT queues_name_key UNIQUE (name),
    CONSTRAINT queues_name_check CHECK (name <> ''),
    CONSTRAINT queues_on_poison_check CHECK (on_poison IN ('dlq', 'block', 'skip')),
    CONSTRAINT queues_not_negative_check CHECK (
        lease_time >= 0 AND retry_limit >= 0 AND retry_delay >= 0 AND max_size >= 0
        AND delayed_processing >= 0 AND window_buffer >= 0
    )
);

-- Serves pops by namespace and task.
CREATE INDEX queues_namespace_task_idx ON queen.queues (namespace, task);

CREATE TABLE queen.partitions (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    queue_id uuid NOT NULL REFERENCES queen.queues (id),
    name text COLLATE "C" NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT partitions_queue_id_name_key UNIQUE (queue_id, name),
    CONSTRAINT partitions_name_check CHECK (name <> '')
);
