-- Spark's tasks may stage payloads that they have encrypted.

ALTER TABLE queen.spark_staging
    -- Of a list: the payloads are envelopes, each bound to its message. A task that does not say so stages them in clear.
    ADD COLUMN is_encrypted boolean NOT NULL DEFAULT false;
