-- Transactions that were committed, so that one that is sent again after a lost answer is recognised.

CREATE TABLE queen.transactions (
    -- Of the idempotency key that the caller gave, or of what makes the transaction unique (commit_transaction).
    key uuid PRIMARY KEY,
    -- Of everything it does: the same key for something else is a mistake.
    digest uuid NOT NULL,
    committed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- What commit_transaction answered.
    message_ids text[],
    outcomes text,
    positions bigint[],
    is_dlq boolean[]
) WITH (
    -- Rows come at the end and go from the front.
    autovacuum_vacuum_scale_factor = 0.05
);

-- Serves the sweep of old ones.
CREATE INDEX transactions_committed_at_idx ON queen.transactions (committed_at);
