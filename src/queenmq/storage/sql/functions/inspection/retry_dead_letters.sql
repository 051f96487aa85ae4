-- Push dead letters again and delete them, in one transaction: each message once, at the end of its partition, in
-- the order of the partition. Every group of the queue gets it, including those that had handled it.
--
-- Arguments: filters, NULL for any: p_queue_name, p_consumer_group, p_partition_name, failed from p_start
-- to p_end, of the message p_partition_id and p_transaction_id, with an error that begins with p_error. p_limit: dead
-- letters to read, oldest failure first. One call pushes at most some 32 MB of payloads. p_queue_max as in
-- push_messages.
-- The new message keeps its transaction id if its partition has no message of that id any more; else the new
-- message's id is its transaction id. Trace id, producer and encryption are kept. An encrypted payload is bound to
-- its transaction id: the p_sealed arrays have, by partition and seq, another id and the payload encrypted for it, to
-- be used where the old id cannot be kept.
-- Result: a row per message. outcome: q stored (message_id), b queued behind operations that wait in the
-- partition (message_id is the operation's), f refused because the queue is at its maxSize; its dead letters stay.
-- letters: how many dead letters it had. has_more: whether others match.
-- Tables: those of push_messages; dead_letter_queue (delete).
-- Locks: lookup rows in partition id order, then as push_messages, then the dead letters. Consumers are woken on
-- commit.
-- Errors: 40001 another session removed one of them meanwhile, or one is not in the p_sealed arrays; QN003; 55P03
-- a row stayed locked for
-- p_lock_timeout_ms.
CREATE OR REPLACE FUNCTION queen.retry_dead_letters(
    p_queue_name text,
    p_consumer_group text,
    p_partition_name text,
    p_start timestamptz,
    p_end timestamptz,
    p_partition_id uuid,
    p_transaction_id text,
    p_limit integer,
    p_queue_max integer,
    p_lock_timeout_ms integer,
    p_error text DEFAULT NULL,
    p_sealed_partition_ids uuid[] DEFAULT NULL,
    p_sealed_seqs bigint[] DEFAULT NULL,
    p_sealed_ids text[] DEFAULT NULL,
    p_sealed_payloads text[] DEFAULT NULL
)
RETURNS TABLE (
    queue_name text,
    partition_name text,
    partition_id uuid,
    transaction_id text,
    message_id text,
    new_transaction_id text,
    outcome text,
    letters bigint,
    has_more boolean
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    c_bytes CONSTANT bigint := 32 * 1024 * 1024;
    v_ids uuid[];
    v_has_more boolean;
    v_found record;
    v_pushed record;
    v_removed bigint;
    v_expected bigint;
BEGIN
    PERFORM set_config('lock_timeout', p_lock_timeout_ms::text, true);
    SELECT array_agg(c.id ORDER BY c.n) FILTER (WHERE c.n <= p_limit), bool_or(c.n > p_limit)
    INTO v_ids, v_has_more
    FROM (
        SELECT d.id, row_number() OVER (ORDER BY d.failed_at, d.partition_id, d.seq) AS n
        FROM queen.dead_letter_queue d
        JOIN queen.partitions p ON p.id = d.partition_id
        JOIN queen.queues q ON q.id = d.queue_id
        WHERE (p_queue_name IS NULL OR q.name = p_queue_name)
          AND (p_consumer_group IS NULL OR d.consumer_group = p_consumer_group)
          AND (p_partition_name IS NULL OR p.name = p_partition_name)
          AND (p_start IS NULL OR d.failed_at >= p_start) AND (p_end IS NULL OR d.failed_at <= p_end)
          AND (p_partition_id IS NULL OR d.partition_id = p_partition_id)
          AND (p_transaction_id IS NULL OR d.transaction_id = p_transaction_id)
          AND (p_error IS NULL OR starts_with(coalesce(d.error_message, ''), p_error))
        ORDER BY d.failed_at, d.partition_id, d.seq
        LIMIT p_limit + 1
    ) c;
    IF v_ids IS NULL THEN
        RETURN;
    END IF;
    PERFORM FROM queen.partition_lookup l
    WHERE l.partition_id IN (SELECT d.partition_id FROM queen.dead_letter_queue d WHERE d.id = ANY (v_ids))
    ORDER BY l.partition_id
    FOR NO KEY UPDATE;

    -- Lock first, then look: another retry of these has ended, and no session pushes to the partitions now.
    WITH chosen AS (
        SELECT DISTINCT ON (d.partition_id, d.seq) d.partition_id, d.seq, d.message_id, d.transaction_id,
               d.trace_id, d.producer_sub, d.is_encrypted, d.payload::text AS payload,
               count(*) OVER (PARTITION BY d.partition_id, d.seq) AS letters
        FROM queen.dead_letter_queue d
        WHERE (p_consumer_group IS NULL OR d.consumer_group = p_consumer_group)
          AND (d.partition_id, d.seq) IN (
              SELECT x.partition_id, x.seq FROM queen.dead_letter_queue x WHERE x.id = ANY (v_ids))
        ORDER BY d.partition_id, d.seq, d.failed_at
    ), sized AS (
        SELECT c.*, sum(octet_length(c.payload)) OVER (ORDER BY c.partition_id, c.seq) AS bytes,
               row_number() OVER (ORDER BY c.partition_id, c.seq) AS n
        FROM chosen c
    ), kept AS (
        SELECT s.*, dense_rank() OVER (ORDER BY s.partition_id) AS k,
               s.transaction_id <> s.message_id::text
                   AND queen.find_message(s.partition_id, s.transaction_id) IS NULL
                   AND row_number() OVER (PARTITION BY s.partition_id, s.transaction_id ORDER BY s.seq) = 1 AS keeps_id
        FROM sized s WHERE s.bytes <= c_bytes OR s.n = 1
    ), placed AS (
        SELECT s.partition_id, s.seq, s.transaction_id, s.trace_id, s.producer_sub, s.is_encrypted, s.letters, s.n, s.k,
               CASE WHEN s.keeps_id THEN s.transaction_id ELSE r.id END AS new_id,
               CASE WHEN s.keeps_id OR NOT s.is_encrypted THEN s.payload ELSE r.payload END AS payload
        FROM kept s
        LEFT JOIN unnest(p_sealed_partition_ids, p_sealed_seqs, p_sealed_ids, p_sealed_payloads)
            AS r (partition_id, seq, id, payload)
            ON s.is_encrypted AND r.partition_id = s.partition_id AND r.seq = s.seq
    )
    SELECT array_agg(DISTINCT p.partition_id) AS partition_ids, array_agg(p.k::integer ORDER BY p.n) AS ks,
           array_agg(p.new_id ORDER BY p.n) AS new_ids, array_agg(p.trace_id ORDER BY p.n) AS trace_ids,
           array_agg(p.payload ORDER BY p.n) AS payloads, array_agg(p.producer_sub ORDER BY p.n) AS subs,
           array_agg(p.is_encrypted ORDER BY p.n) AS encrypted, count(*) AS messages,
           array_agg(p.seq ORDER BY p.n) AS seqs, array_agg(p.letters ORDER BY p.n) AS letters,
           array_agg(p.transaction_id::text ORDER BY p.n) AS old_ids,
           (SELECT count(*) FROM chosen) > count(*) AS is_cut
    INTO v_found FROM placed p;
    IF v_found.messages = 0 THEN
        RETURN;
    END IF;
    IF array_position(v_found.payloads, NULL) IS NOT NULL THEN
        RAISE EXCEPTION 'an encrypted dead letter needs another id, and was not encrypted for one'
            USING ERRCODE = '40001';
    END IF;
    SELECT * INTO v_pushed FROM queen.push_messages(
        v_found.partition_ids, v_found.ks, v_found.new_ids, v_found.trace_ids, v_found.payloads, v_found.subs,
        v_found.encrypted, ARRAY[v_found.messages::integer], NULL, p_queue_max, false, false, NULL);

    WITH kept AS (
        SELECT v_found.partition_ids[u.k] AS partition_id, u.seq, u.letters
        FROM unnest(v_found.ks, v_found.seqs, v_found.letters) WITH ORDINALITY AS u (k, seq, letters, n)
        WHERE substr(v_pushed.outcomes, u.n::integer, 1) <> 'f'
    ), gone AS (
        DELETE FROM queen.dead_letter_queue d USING kept
        WHERE d.partition_id = kept.partition_id AND d.seq = kept.seq
          AND (p_consumer_group IS NULL OR d.consumer_group = p_consumer_group)
        RETURNING 1
    )
    SELECT (SELECT count(*) FROM gone), coalesce((SELECT sum(kept.letters) FROM kept), 0)
    INTO v_removed, v_expected;
    IF v_removed <> v_expected THEN
        RAISE EXCEPTION 'another session removed some of these dead letters meanwhile' USING ERRCODE = '40001';
    END IF;

    PERFORM pg_notify(
        'queen_wake', json_build_object('from', '', 'queues', json_build_array(n.name))::text)
    FROM (SELECT DISTINCT q.name FROM queen.partitions p JOIN queen.queues q ON q.id = p.queue_id
          WHERE p.id = ANY (v_found.partition_ids)) n;
    RETURN QUERY
    SELECT q.name::text, p.name::text, p.id, u.old_id, v_pushed.message_ids[u.n],
           coalesce(v_found.new_ids[u.n], CASE WHEN substr(v_pushed.outcomes, u.n::integer, 1) = 'q'
                                               THEN v_pushed.message_ids[u.n] END),
           substr(v_pushed.outcomes, u.n::integer, 1), u.letters, v_has_more OR v_found.is_cut
    FROM unnest(v_found.ks, v_found.old_ids, v_found.letters) WITH ORDINALITY AS u (k, old_id, letters, n)
    JOIN queen.partitions p ON p.id = v_found.partition_ids[u.k]
    JOIN queen.queues q ON q.id = p.queue_id
    ORDER BY u.n;
END
$$;
