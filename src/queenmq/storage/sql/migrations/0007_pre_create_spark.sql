-- Spark streams as brokers and people see them.

-- Where each stream with a consumer group stands. Written by the stream itself after each batch; the
-- position that it really starts from again is in its checkpoint.
CREATE TABLE queen.spark_positions (
    consumer_group text COLLATE "C" NOT NULL,
    -- Made when the stream began; the same for as long as its checkpoint is kept.
    query_id text COLLATE "C" NOT NULL,
    -- The queues that it reads, by name, in the form of a JSON list.
    queues text NOT NULL,
    -- Messages of all transactions below this one have been read.
    xid xid8 NOT NULL,
    -- Messages that waited when this was written; counting stops at a million.
    lag bigint NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT spark_positions_pkey PRIMARY KEY (consumer_group, query_id),
    CONSTRAINT spark_positions_lag_check CHECK (lag >= 0)
);
