-- Streams: queries that clients run over a queue, and the state they keep per partition.

-- Not CREATE SCHEMA IF NOT EXISTS: an owner without CREATE on the database may have had it made by a superuser.
DO $$
BEGIN
    IF to_regnamespace('queen_streams') IS NULL THEN
        CREATE SCHEMA queen_streams;
    END IF;
END
$$;

CREATE TABLE queen_streams.queries (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    name text COLLATE "C" NOT NULL,
    source_queue text COLLATE "C" NOT NULL,
    sink_queue text COLLATE "C",
    -- Of the chain of operators; clients compute it, we compare it.
    config_hash text NOT NULL,
    last_error text,
    last_error_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    registered_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT queries_name_key UNIQUE (name),
    CONSTRAINT queries_names_check CHECK (name <> '' AND source_queue <> '' AND config_hash <> '')
) WITH (fillfactor = 50);

-- How far a query is in a partition. Its row serialises the cycles of the pair.
CREATE TABLE queen_streams.partitions (
    query_id uuid NOT NULL,
    partition_id uuid NOT NULL,
    -- Counts the cycles: the state of the partition changes with it only.
    version bigint NOT NULL DEFAULT 0,
    -- Of its latest cycle.
    consumer_group text COLLATE "C",
    -- Sizes of the state rows of the pair, keys included.
    state_keys bigint NOT NULL DEFAULT 0,
    state_bytes bigint NOT NULL DEFAULT 0,
    last_cycle_at timestamptz,
    -- The last cycle, of which a copy is answered and not applied.
    digest uuid,
    message_ids text[],
    outcomes text,
    positions bigint[],
    lease_released boolean,
    is_dlq boolean,
    CONSTRAINT partitions_pkey PRIMARY KEY (query_id, partition_id),
    CONSTRAINT partitions_counts_check CHECK (version >= 0 AND state_keys >= 0 AND state_bytes >= 0)
) WITH (
    -- Room for HOT updates: every cycle rewrites this row and no indexed column ever changes.
    fillfactor = 40,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_cost_delay = 0
);

-- Serves the deletion of queues and partitions.
CREATE INDEX partitions_partition_id_idx ON queen_streams.partitions (partition_id);

CREATE TABLE queen_streams.state (
    query_id uuid NOT NULL,
    partition_id uuid NOT NULL,
    key text COLLATE "C" NOT NULL,
    -- As it came; a state may hold what jsonb refuses.
    value json NOT NULL,
    -- The value's number windowEnd, if it has one: from then on the window may close.
    window_end double precision,
    -- The size of key and value.
    bytes integer NOT NULL,
    -- A client outside a lease has seen this very value, so a flush may remove it.
    is_offered boolean NOT NULL DEFAULT false,
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT state_pkey PRIMARY KEY (query_id, partition_id, key)
) WITH (
    -- Most cycles rewrite the rows of the one before.
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_cost_delay = 0
);
