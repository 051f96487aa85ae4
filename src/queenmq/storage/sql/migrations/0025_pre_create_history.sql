-- What brokers did, minute by minute and hour by hour. Each worker process writes its own rows, once a minute, so
-- no two of them meet. Nothing here is worked out from messages.

-- A row per queue and worker that had anything to do with it; per hour, the workers are added up ('').
CREATE TABLE queen.history_queues (
    step_minutes smallint NOT NULL,
    at timestamptz NOT NULL,
    -- Empty: all queues of a worker that were too many to be told apart. No foreign key: the history of a queue
    -- outlives it.
    queue text COLLATE "C" NOT NULL,
    worker text COLLATE "C" NOT NULL,
    push_requests bigint NOT NULL,
    push_messages bigint NOT NULL,
    push_bytes bigint NOT NULL,
    duplicates bigint NOT NULL,
    pop_requests bigint NOT NULL,
    pop_messages bigint NOT NULL,
    pop_empty bigint NOT NULL,
    ack_requests bigint NOT NULL,
    ack_success bigint NOT NULL,
    ack_failed bigint NOT NULL,
    retried bigint NOT NULL,
    dead_lettered bigint NOT NULL,
    transactions bigint NOT NULL,
    errors bigint NOT NULL,
    -- From storing the first message of a batch to its delivery, added up over lag_count batches.
    lag_ms double precision NOT NULL,
    lag_ms_max double precision NOT NULL,
    lag_count bigint NOT NULL,
    -- Pops that waited when the row was written; per hour, the most of any minute.
    parked integer NOT NULL,
    -- Serves the sweep, the roll-up and all queues of a span.
    CONSTRAINT history_queues_pkey PRIMARY KEY (step_minutes, at, queue, worker),
    CONSTRAINT history_queues_check CHECK (step_minutes IN (1, 60))
);

-- Serves one queue over a span.
CREATE INDEX history_queues_queue_idx ON queen.history_queues (step_minutes, queue, at);

-- A row per worker process.
CREATE TABLE queen.history_workers (
    step_minutes smallint NOT NULL,
    at timestamptz NOT NULL,
    hostname text COLLATE "C" NOT NULL,
    worker_id integer NOT NULL,
    pid integer NOT NULL,
    port integer NOT NULL,
    -- Averages of the minute, or of the minutes of an hour. Processor time in percent of one core.
    cpu_user double precision NOT NULL,
    cpu_system double precision NOT NULL,
    rss_bytes double precision NOT NULL,
    virtual_bytes double precision NOT NULL,
    pool_size double precision NOT NULL,
    pool_idle double precision NOT NULL,
    pool_active double precision NOT NULL,
    pool_waiting double precision NOT NULL,
    loop_lag_ms double precision NOT NULL,
    loop_lag_ms_max double precision NOT NULL,
    -- Sums.
    http_requests bigint NOT NULL,
    push_requests bigint NOT NULL,
    push_messages bigint NOT NULL,
    pop_requests bigint NOT NULL,
    pop_messages bigint NOT NULL,
    ack_requests bigint NOT NULL,
    ack_success bigint NOT NULL,
    ack_failed bigint NOT NULL,
    dead_lettered bigint NOT NULL,
    transactions bigint NOT NULL,
    db_errors bigint NOT NULL,
    lag_ms double precision NOT NULL,
    lag_ms_max double precision NOT NULL,
    lag_count bigint NOT NULL,
    parked integer NOT NULL,
    -- Serves every span and the sweep.
    CONSTRAINT history_workers_pkey PRIMARY KEY (step_minutes, at, hostname, worker_id, pid),
    CONSTRAINT history_workers_check CHECK (step_minutes IN (1, 60))
);

-- What all brokers have counted since the first of them, so that no restart makes it fall.
CREATE TABLE queen.history_totals (
    name text COLLATE "C" PRIMARY KEY,
    value bigint NOT NULL
);
