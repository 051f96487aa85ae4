-- Return a page of messages without their payloads, newest first, with their states.
--
-- Arguments: scope as in queues_in_scope; p_partition_name (NULL: all; needs a queue); p_status (NULL: any) as in
-- message_states; created from p_start up to p_end; p_limit after p_offset; p_scan_max bounds the messages to scan.
-- p_transaction_id and p_text (NULL: any) keep messages of that name, and those whose payload holds that text.
-- In one partition the order is that of seq, and the times are searched for. Over several, it is that of the
-- transactions, and only the newest p_scan_max messages of the scope are scanned, so that a queue of any size
-- costs the same.
-- Result: is_cut on every row; a row without an id stands for an empty page. It says that there may be more messages
-- behind those that were scanned. Takes no locks.
CREATE OR REPLACE FUNCTION queen.list_messages(
    p_queue_name text,
    p_namespace text,
    p_task text,
    p_partition_name text,
    p_status text,
    p_start timestamptz,
    p_end timestamptz,
    p_limit integer,
    p_offset integer,
    p_scan_max integer,
    p_transaction_id text DEFAULT NULL,
    p_text text DEFAULT NULL
)
RETURNS TABLE (
    id uuid,
    transaction_id text,
    partition_id uuid,
    queue_name text,
    partition_name text,
    namespace text,
    task text,
    priority integer,
    trace_id uuid,
    producer_sub text,
    created_at timestamptz,
    status text,
    queue_status text,
    passed_groups text[],
    named_groups text[],
    lease_expires_at timestamptz,
    is_cut boolean
)
LANGUAGE plpgsql STABLE
AS $$
#variable_conflict use_column
DECLARE
    v_each integer;
    v_ids uuid[];
    v_seqs bigint[];
    v_is_cut boolean;
    v_is_searched CONSTANT boolean := p_transaction_id IS NOT NULL OR p_text IS NOT NULL;
BEGIN
    IF p_partition_name IS NOT NULL THEN
        SELECT array_agg(f.partition_id ORDER BY f.seq DESC), array_agg(f.seq ORDER BY f.seq DESC),
               (p_status IS NOT NULL OR v_is_searched) AND count(*) = p_scan_max
        INTO v_ids, v_seqs, v_is_cut
        FROM (
            SELECT m.partition_id, m.seq
            FROM queen.queues q
            JOIN queen.partitions p ON p.queue_id = q.id AND p.name = p_partition_name
            JOIN queen.messages m ON m.partition_id = p.id
                AND m.seq > queen.seq_before(p.id, p_start)
                AND m.seq <= queen.seq_before(p.id, p_end + interval '1 microsecond')
            WHERE q.name = p_queue_name
            ORDER BY m.seq DESC
            LIMIT CASE WHEN p_status IS NULL AND NOT v_is_searched THEN p_offset + p_limit ELSE p_scan_max END
        ) f;
    ELSE
        SELECT greatest(1, p_scan_max / greatest(1, count(*)))::integer INTO v_each
        FROM queen.queues_in_scope(p_queue_name, p_namespace, p_task);
        WITH looked_at AS MATERIALIZED (
            SELECT q.id AS queue_id, m.*
            FROM queen.queues_in_scope(p_queue_name, p_namespace, p_task) q
            CROSS JOIN LATERAL (
                SELECT x.partition_id, x.seq, x.xid, x.created_at FROM queen.messages x
                WHERE x.queue_id = q.id ORDER BY x.xid DESC LIMIT v_each
            ) m
        ), cut AS (
            -- Below the end of what was read of one queue, the others would be shown without it.
            SELECT max(c.xid) AS xid
            FROM (SELECT min(l.xid::text::bigint) AS xid FROM looked_at l
                  GROUP BY l.queue_id HAVING count(*) = v_each) c
        )
        SELECT array_agg(l.partition_id ORDER BY l.xid DESC, l.partition_id, l.seq DESC),
               array_agg(l.seq ORDER BY l.xid DESC, l.partition_id, l.seq DESC),
               (SELECT c.xid IS NOT NULL FROM cut c)
        INTO v_ids, v_seqs, v_is_cut
        FROM looked_at l
        WHERE l.created_at >= p_start AND l.created_at <= p_end
          AND l.xid::text::bigint >= coalesce((SELECT c.xid FROM cut c), 0);
    END IF;
    IF v_is_searched THEN
        SELECT array_agg(u.partition_id ORDER BY u.n), array_agg(u.seq ORDER BY u.n) INTO v_ids, v_seqs
        FROM unnest(v_ids, v_seqs) WITH ORDINALITY AS u (partition_id, seq, n)
        JOIN queen.messages m ON m.partition_id = u.partition_id AND m.seq = u.seq
        WHERE (p_transaction_id IS NULL OR coalesce(m.transaction_id, m.id::text) = p_transaction_id)
          AND (p_text IS NULL OR strpos(m.payload::text, p_text) > 0);
    END IF;
    IF p_status IS NULL THEN
        v_is_cut := v_is_cut AND coalesce(cardinality(v_ids), 0) <= p_offset + p_limit;
        v_ids := v_ids[p_offset + 1:p_offset + p_limit];
        v_seqs := v_seqs[p_offset + 1:p_offset + p_limit];
    END IF;

    RETURN QUERY
    WITH page AS (
        SELECT s.*, v_ids[s.ordinal] AS partition_id, v_seqs[s.ordinal] AS seq
        FROM queen.message_states(v_ids, v_seqs) s
        WHERE p_status IS NULL OR s.status = p_status
        ORDER BY s.ordinal
        OFFSET CASE WHEN p_status IS NULL THEN 0 ELSE p_offset END
        LIMIT p_limit
    ), filled AS (
        SELECT m.id, coalesce(m.transaction_id, m.id::text) AS transaction_id, m.partition_id,
               q.name::text AS queue_name, p.name::text AS partition_name, q.namespace::text, q.task::text,
               q.priority, m.trace_id, m.producer_sub, m.created_at, g.status, g.queue_status, g.passed_groups,
               g.named_groups, g.lease_expires_at, g.ordinal
        FROM page g
        JOIN queen.messages m ON m.partition_id = g.partition_id AND m.seq = g.seq
        JOIN queen.partitions p ON p.id = m.partition_id
        JOIN queen.queues q ON q.id = p.queue_id
    )
    SELECT f.id, f.transaction_id, f.partition_id, f.queue_name, f.partition_name, f.namespace, f.task,
           f.priority, f.trace_id, f.producer_sub, f.created_at, f.status, f.queue_status, f.passed_groups,
           f.named_groups, f.lease_expires_at, coalesce(v_is_cut, false)
    FROM (SELECT 1) one LEFT JOIN filled f ON true
    ORDER BY f.ordinal;
END
$$;
