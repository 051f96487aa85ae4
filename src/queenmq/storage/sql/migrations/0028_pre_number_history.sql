-- Who has written how many minutes of history: a minute that is sent again, because nobody knows whether it was
-- stored, is known by its number. Rows of processes that are gone are swept after a day.
CREATE TABLE queen.history_writers (
    -- Made anew by every process.
    writer uuid PRIMARY KEY,
    number bigint NOT NULL,
    written_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT history_writers_check CHECK (number > 0)
);
