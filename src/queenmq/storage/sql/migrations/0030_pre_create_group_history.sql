-- How far behind consumer groups were, minute by minute and hour by hour. One broker writes it for all, so that a lag
-- can be looked up afterwards and not only watched.
CREATE TABLE queen.history_groups (
    step_minutes smallint NOT NULL,
    at timestamptz NOT NULL,
    -- No foreign keys: the history of a queue and of a group outlives both.
    queue text COLLATE "C" NOT NULL,
    consumer_group text COLLATE "C" NOT NULL,
    -- consumer: its cursors. spark: its streams, of which the last counts.
    kind text COLLATE "C" NOT NULL,
    -- Messages before the group when the minute ended; per hour, their average and the most of any minute.
    lag bigint NOT NULL,
    lag_max bigint NOT NULL,
    -- The age of the oldest of them; per hour, the highest of any minute.
    lag_seconds double precision NOT NULL,
    -- Serves the sweep, the roll-up and all groups of a span.
    CONSTRAINT history_groups_pkey PRIMARY KEY (step_minutes, at, queue, consumer_group, kind),
    CONSTRAINT history_groups_check CHECK (step_minutes IN (1, 60) AND kind IN ('consumer', 'spark'))
);

-- Serves the groups of one queue over a span.
CREATE INDEX history_groups_queue_idx ON queen.history_groups (step_minutes, queue, at);
