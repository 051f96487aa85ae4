-- What consumers did, step by step, for queues that ask for it; and what the analytics job found.

ALTER TABLE queen.queues
    -- Whether every move of a cursor is written down.
    ADD COLUMN ack_history boolean NOT NULL DEFAULT false,
    -- Since when: what was passed before, or while it was off, is not there.
    ADD COLUMN ack_history_since timestamptz NOT NULL DEFAULT now();

-- One row per advance of a cursor, written by the transaction that moves it. Within a group each number is
-- there once, and once more for each time that a seek has brought the cursor back before it.
CREATE TABLE queen.ack_history (
    queue_id uuid NOT NULL,
    passed_at timestamptz NOT NULL,
    id bigint GENERATED ALWAYS AS IDENTITY,
    partition_id uuid NOT NULL,
    consumer_group text COLLATE "C" NOT NULL,
    -- The messages that the cursor has passed with this step.
    first_seq bigint NOT NULL,
    last_seq bigint NOT NULL,
    -- When they were handed out; NULL where that is not known.
    delivered_at timestamptz,
    -- ack, autoAck, poison: settled by a consumer or by the rule for poison messages. removed: nobody got
    -- them, they were gone before. seek: nobody got them, an operator moved the group.
    cause text NOT NULL,
    completed bigint NOT NULL,
    dead_lettered bigint NOT NULL,
    -- Failed acks and leases that ran out before.
    retries integer NOT NULL,
    -- The transaction: a reader that bounds it by a snapshot's xmin reads stable ranges.
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    -- Serves readers of a queue by time, and the sweep.
    CONSTRAINT ack_history_pkey PRIMARY KEY (queue_id, passed_at, id),
    CONSTRAINT ack_history_cause_check CHECK (cause IN ('ack', 'autoAck', 'poison', 'removed', 'seek')),
    CONSTRAINT ack_history_range_check CHECK (
        first_seq >= 1 AND last_seq >= first_seq AND retries >= 0 AND completed >= 0 AND dead_lettered >= 0
        AND completed + dead_lettered <= last_seq - first_seq + 1)
) WITH (
    autovacuum_vacuum_insert_scale_factor = 0.1,
    autovacuum_vacuum_scale_factor = 0.05
);

-- Runs of `queen pipeline analytics`, newest hundred. The rows of the tables below go with their run; they are
-- a copy for the API, bounded by the job; with a lake, all of it is there.
CREATE TABLE queen.analytics_runs (
    -- Made from the choice of queues, the range and the bucket: the same again replaces.
    id uuid PRIMARY KEY,
    -- Which queues were asked for, as options of the source.
    scope json NOT NULL,
    from_time timestamptz NOT NULL,
    to_time timestamptz NOT NULL,
    bucket_seconds integer NOT NULL,
    messages bigint NOT NULL,
    finished_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT analytics_runs_check CHECK (from_time < to_time AND bucket_seconds > 0 AND messages >= 0)
);

-- Serves the list of runs, the choice of the newest one, and forgetting the oldest.
CREATE INDEX analytics_runs_finished_at_idx ON queen.analytics_runs (finished_at DESC);

-- A queue, or with a group that group on it, in each bucket of time.
CREATE TABLE queen.analytics_timeline (
    run_id uuid NOT NULL REFERENCES queen.analytics_runs (id) ON DELETE CASCADE,
    queue text COLLATE "C" NOT NULL,
    consumer_group text COLLATE "C",
    bucket_at timestamptz NOT NULL,
    pushed bigint,
    bytes bigint,
    consumed bigint,
    -- At the end of the bucket.
    backlog bigint,
    latency_p50_ms double precision,
    latency_p95_ms double precision,
    latency_p99_ms double precision,
    retries bigint,
    dead_letters bigint
);

-- Serves the API: rows of a run, of a queue, by time.
CREATE INDEX analytics_timeline_idx ON queen.analytics_timeline (run_id, queue, bucket_at);

-- The same for each partition, where something happened. Here only the hottest partitions.
CREATE TABLE queen.analytics_partitions (
    run_id uuid NOT NULL REFERENCES queen.analytics_runs (id) ON DELETE CASCADE,
    queue text COLLATE "C" NOT NULL,
    partition text COLLATE "C" NOT NULL,
    consumer_group text COLLATE "C",
    bucket_at timestamptz NOT NULL,
    pushed bigint,
    bytes bigint,
    consumed bigint,
    backlog bigint,
    latency_p50_ms double precision,
    latency_p95_ms double precision,
    latency_p99_ms double precision,
    retries bigint,
    dead_letters bigint
);

-- Serves the API, likewise.
CREATE INDEX analytics_partitions_idx ON queen.analytics_partitions (run_id, queue, bucket_at);

-- Partitions by what was pushed to them.
CREATE TABLE queen.analytics_hottest (
    run_id uuid NOT NULL REFERENCES queen.analytics_runs (id) ON DELETE CASCADE,
    queue text COLLATE "C" NOT NULL,
    rank integer NOT NULL,
    partition text COLLATE "C" NOT NULL,
    pushed bigint NOT NULL,
    bytes bigint NOT NULL,
    -- Of all that was pushed to the queue.
    share double precision NOT NULL
);

-- Serves the API, likewise.
CREATE INDEX analytics_hottest_idx ON queen.analytics_hottest (run_id, queue, rank);

CREATE TABLE queen.analytics_queues (
    run_id uuid NOT NULL REFERENCES queen.analytics_runs (id) ON DELETE CASCADE,
    queue text COLLATE "C" NOT NULL,
    keeps_history boolean NOT NULL,
    partitions bigint NOT NULL,
    pushed bigint NOT NULL,
    bytes bigint NOT NULL,
    -- How unevenly pushes fall on partitions: the largest by the mean; 0 (even) to 1 (all in one).
    max_by_mean double precision,
    gini double precision,
    payload_p50 bigint,
    payload_p95 bigint,
    payload_p99 bigint,
    payload_max bigint
);

-- Serves the API, likewise.
CREATE INDEX analytics_queues_idx ON queen.analytics_queues (run_id, queue);

CREATE TABLE queen.analytics_groups (
    run_id uuid NOT NULL REFERENCES queen.analytics_runs (id) ON DELETE CASCADE,
    queue text COLLATE "C" NOT NULL,
    consumer_group text COLLATE "C" NOT NULL,
    -- When the job ran, whatever its range.
    backlog_now bigint NOT NULL,
    consumed bigint,
    retries bigint,
    dead_letters bigint NOT NULL,
    -- Messages that the percentiles are made of.
    measured bigint,
    latency_p50_ms double precision,
    latency_p95_ms double precision,
    latency_p99_ms double precision
);

-- Serves the API, likewise.
CREATE INDEX analytics_groups_idx ON queen.analytics_groups (run_id, queue);

CREATE TABLE queen.analytics_dead_letters (
    run_id uuid NOT NULL REFERENCES queen.analytics_runs (id) ON DELETE CASCADE,
    queue text COLLATE "C" NOT NULL,
    consumer_group text COLLATE "C" NOT NULL,
    -- Without the numbers and ids in it, so that equal ones meet.
    error text NOT NULL,
    letters bigint NOT NULL,
    first_at timestamptz NOT NULL,
    last_at timestamptz NOT NULL
);

-- Serves the API, likewise.
CREATE INDEX analytics_dead_letters_idx ON queen.analytics_dead_letters (run_id, queue);

CREATE TABLE queen.analytics_producers (
    run_id uuid NOT NULL REFERENCES queen.analytics_runs (id) ON DELETE CASCADE,
    queue text COLLATE "C" NOT NULL,
    -- NULL: pushed without a name. The smallest ones are one row without a rank.
    producer text,
    rank integer,
    pushed bigint NOT NULL,
    bytes bigint NOT NULL
);

-- Serves the API, likewise.
CREATE INDEX analytics_producers_idx ON queen.analytics_producers (run_id, queue);

CREATE TABLE queen.analytics_payload_sizes (
    run_id uuid NOT NULL REFERENCES queen.analytics_runs (id) ON DELETE CASCADE,
    queue text COLLATE "C" NOT NULL,
    -- Payloads above half of it and up to it.
    up_to_bytes bigint NOT NULL,
    messages bigint NOT NULL,
    bytes bigint NOT NULL
);

-- Serves the API, likewise.
CREATE INDEX analytics_payload_sizes_idx ON queen.analytics_payload_sizes (run_id, queue, up_to_bytes);
