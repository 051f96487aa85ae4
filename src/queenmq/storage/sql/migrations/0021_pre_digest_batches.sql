-- What a published batch of Spark held, so that one that is run again can be told from another one with its number.

ALTER TABLE queen.spark_commits
    -- Adds up over the rows, in whatever order they come (spark/digests.py). NULL: not known, nothing to compare.
    ADD COLUMN digest bigint,
    ADD CONSTRAINT spark_commits_digest_check CHECK (digest >= 0);
