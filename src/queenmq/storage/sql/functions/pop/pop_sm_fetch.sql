-- Read the messages of granted ranges as the JSON that goes on the wire.
--
-- Arguments: grants of pop_sm_lease. Result: one row per grant; messages is the inside of a JSON array in
-- seq order, NULL when the range is a hole left by deleted messages. The payload is spliced in as it was
-- stored; the broker decrypts it where isEncrypted says so. Reads only what a grant covers, so the cost does not grow with the backlog. Takes no locks.
-- In SQL, so that it becomes part of the statement that calls it.
CREATE OR REPLACE FUNCTION queen.pop_sm_fetch(p_grants queen.pop_grant[])
RETURNS TABLE (
    request integer,
    partition_id uuid,
    consumer_group text,
    lease_id uuid,
    end_seq bigint,
    has_more boolean,
    partition_name text,
    queue_name text,
    message_count bigint,
    is_encrypted boolean,
    messages text
)
LANGUAGE sql STABLE
AS $$
    SELECT g.request, g.partition_id, g.consumer_group, g.lease_id, g.end_seq, g.has_more,
           p.name::text, q.name::text, f.message_count, f.is_encrypted,
           '{"retryCount":' || g.attempts || ',"id":"' || f.bodies || t.tail
    FROM unnest(p_grants) g
    JOIN queen.partitions p ON p.id = g.partition_id
    JOIN queen.queues q ON q.id = p.queue_id
    CROSS JOIN LATERAL (
        SELECT ',"queue":' || to_json(q.name) || ',"partition":' || to_json(p.name)
               || ',"partitionId":"' || g.partition_id || '","leaseId":"' || coalesce(g.lease_id::text, '')
               || '","consumerGroup":' || to_json(g.consumer_group) || '}' AS tail
        -- Once per grant, not once per message.
        OFFSET 0
    ) t
    CROSS JOIN LATERAL (
        SELECT count(*) AS message_count, bool_or(m.is_encrypted) AS is_encrypted,
               -- What all messages of a grant have in common stands in the delimiter, which is not built anew
               -- for each. Only the first one can have been tried before.
               string_agg(
                   m.id || '","transactionId":' || coalesce(to_json(m.transaction_id)::text, '"' || m.id || '"')
                   || CASE WHEN m.trace_id IS NULL AND m.producer_sub IS NULL AND NOT m.is_encrypted
                           THEN ',"traceId":null,"producerSub":null,"createdAt":"'
                           ELSE ',"traceId":' || coalesce('"' || m.trace_id || '"', 'null')
                                || ',"producerSub":' || coalesce(to_json(m.producer_sub)::text, 'null')
                                || CASE WHEN m.is_encrypted THEN ',"isEncrypted":true' ELSE '' END
                                || ',"createdAt":"' END
                   || to_char(m.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z\",\"data\":"')
                   || m.payload,
                   t.tail || ',{"retryCount":0,"id":"') AS bodies
        FROM (
            SELECT x.* FROM queen.messages x
            WHERE x.partition_id = g.partition_id AND x.seq > g.after_seq AND x.seq <= g.end_seq
            ORDER BY x.seq
        ) m
    ) f
$$;
