-- Lets brokers look up only what is new: a search that remembers its transaction horizon reads a queue as
-- a whole only when something other than a push may have brought old messages back into its view.

ALTER TABLE queen.queues
    -- The transaction that last changed what belongs to the queue or where its groups stand, pushes and
    -- pops aside: created, configured, and whatever moves a cursor back.
    ADD COLUMN changed_xid xid8 NOT NULL DEFAULT pg_current_xact_id();
