-- The statements of the sink. COPY stages the rows.

-- name: settle_in
-- publish_staged must see commits of other sessions while it waits, and must not wait forever while it holds rows
-- that pushes wait for. The user's own bound goes first.
SELECT set_config('default_transaction_isolation', 'read committed', false),
       set_config('application_name', 'queen spark sink', false),
       set_config('lock_timeout', CASE WHEN current_setting('lock_timeout') = '0' THEN '30s'
                                       ELSE current_setting('lock_timeout') END, false)

-- name: find_encrypted
SELECT coalesce(json_agg(q.name), '[]')::text
FROM queen.queues q
WHERE q.encryption_enabled AND q.name IN (SELECT json_array_elements_text($1::text::json))

-- name: make_partitions
-- Run this in a separate transaction, which ends before the publication begins. Other sessions cannot see a
-- partition that the publication creates, so a push to it could not be queued and would have to wait for the
-- batch. For a batch that was published before, it creates nothing.
SELECT count(*)
FROM (SELECT array_agg(d.queue) AS queues, array_agg(d.partition) AS partitions
      FROM (SELECT DISTINCT s.queue, s.partition FROM queen.spark_staging s
            WHERE s.stage_id = ANY (string_to_array($3::text, ',')::uuid[])
              AND NOT EXISTS (SELECT FROM queen.spark_commits c
                              WHERE c.query_id = $1::text AND c.batch_id = $2::bigint)) d) n
CROSS JOIN LATERAL queen.ensure_partitions(n.queues, n.partitions, NULL) e

-- name: publish_staged
SELECT is_repeat, stored, duplicates, queued
FROM queen.publish_staged($1::text, $2::bigint, string_to_array($3::text, ',')::uuid[],
                          string_to_array($4::text, ',')::bigint[], $5::bigint)

-- name: shrink_staging
SELECT queen.shrink_staging()

-- name: discard_staged
SELECT queen.discard_staged(string_to_array($1::text, ',')::uuid[])
