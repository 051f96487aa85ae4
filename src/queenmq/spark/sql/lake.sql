-- The statements on a lake itself, in the SQL of DataFusion, which delta-rs includes.

-- name: digests
-- Return the checksum of each message (see lake/tally.py): the first 60 bits of an MD5, in hexadecimal.
SELECT partition_id, seq, xid,
       substr(md5(concat_ws('/', partition_id, CAST(seq AS text), message_id, transaction_id, coalesce(trace_id, ''),
           CAST(CAST(created_at AS bigint) AS text), coalesce(producer_sub, ''),
           CASE WHEN is_encrypted THEN '1' ELSE '0' END, payload)), 1, 15) AS digest
FROM messages
