-- The positions of streams, for lags.

-- name: may_publish
SELECT to_regclass('queen.spark_positions') IS NOT NULL AS is_there,
       coalesce(has_table_privilege(to_regclass('queen.spark_positions'), 'INSERT')
                AND has_table_privilege(to_regclass('queen.spark_positions'), 'UPDATE')
                AND has_table_privilege(to_regclass('queen.spark_positions'), 'SELECT'), false) AS is_allowed

-- name: publish
INSERT INTO queen.spark_positions (consumer_group, query_id, queues, xid, lag, updated_at)
SELECT o.p->>'group', o.p->>'query', o.p->>'queues', (o.p->>'xid')::xid8, (o.p->>'lag')::bigint,
       clock_timestamp()
FROM (SELECT $1::json AS p) o
ON CONFLICT (consumer_group, query_id) DO UPDATE
SET queues = excluded.queues, xid = excluded.xid, lag = excluded.lag, updated_at = excluded.updated_at
