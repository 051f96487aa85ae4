-- Push requests that carried an idempotency key, so that one that is sent again is answered and not stored again.

CREATE TABLE queen.push_keys (
    -- Of the key that the caller gave, and of the caller.
    key uuid PRIMARY KEY,
    -- Of the request's body: the same key for another one is a mistake.
    digest uuid NOT NULL,
    -- The record of a spool that it came from; NULL for one that was stored or queued at once.
    origin uuid,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- What push_messages answered; NULL for one from a spool.
    message_ids uuid[],
    outcomes text,
    positions bigint[],
    CONSTRAINT push_keys_answer_check CHECK ((outcomes IS NULL) = (origin IS NOT NULL))
) WITH (
    -- Rows come at the end and go from the front.
    autovacuum_vacuum_scale_factor = 0.05
);

-- Serves the sweep of old ones. Times only grow, so a few pages of this index name all of them.
CREATE INDEX push_keys_created_at_idx ON queen.push_keys USING brin (created_at) WITH (pages_per_range = 16);
