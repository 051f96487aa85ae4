-- What consumers record about messages, and what operators do to single messages.

CREATE TABLE queen.message_traces (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    queue_id uuid NOT NULL,
    partition_id uuid NOT NULL,
    seq bigint NOT NULL,
    transaction_id text COLLATE "C" NOT NULL,
    consumer_group text COLLATE "C" NOT NULL,
    event_type text NOT NULL,
    data json NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Serves the traces of a message, and their removal with it.
CREATE INDEX message_traces_partition_id_transaction_id_idx
    ON queen.message_traces (partition_id, transaction_id);

-- Serves the sweep of old traces.
CREATE INDEX message_traces_created_at_idx ON queen.message_traces (created_at);

-- A row per trace and name. With the time and the place, so that lists by name read one index.
CREATE TABLE queen.message_trace_names (
    trace_id uuid NOT NULL REFERENCES queen.message_traces (id) ON DELETE CASCADE,
    trace_name text COLLATE "C" NOT NULL,
    partition_id uuid NOT NULL,
    seq bigint NOT NULL,
    created_at timestamptz NOT NULL,
    CONSTRAINT message_trace_names_pkey PRIMARY KEY (trace_id, trace_name),
    CONSTRAINT message_trace_names_name_check CHECK (trace_name <> '')
);

-- Serves the traces of a name, newest first.
CREATE INDEX message_trace_names_name_idx
    ON queen.message_trace_names (trace_name, created_at DESC, trace_id);

-- Serves the list of names that were used last.
CREATE INDEX message_trace_names_created_at_idx ON queen.message_trace_names (created_at DESC);

-- Numbers whose message was taken out from between others. Counts are differences of numbers; these are
-- what they have to leave out. Rows below first_seq mean nothing and are swept.
CREATE TABLE queen.removed_messages (
    partition_id uuid NOT NULL,
    seq bigint NOT NULL,
    CONSTRAINT removed_messages_pkey PRIMARY KEY (partition_id, seq)
);

-- Serves dead letters of all queues by the time of their failure: lists, purges, retries.
CREATE INDEX dead_letter_queue_failed_at_idx ON queen.dead_letter_queue (failed_at DESC);

-- Serves the question whether a message is a dead letter of any group.
CREATE INDEX dead_letter_queue_partition_id_seq_idx ON queen.dead_letter_queue (partition_id, seq);
