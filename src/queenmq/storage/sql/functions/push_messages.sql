-- Store the items of one or many push requests; all of them or, on an error, none.
--
-- Arguments: p_partition_ids holds the distinct partitions in ascending order; every other array but the
-- last has one element per item, in push order, p_item_partitions being positions in p_partition_ids. An
-- array that would hold only NULLs may be NULL. p_lock_timeout_ms bounds the wait for each partition's
-- row; NULL leaves the caller's own setting.
-- Result: one row of arrays in item order. outcomes: q queued, d duplicate (message_ids then has the
-- stored winner), f refused because the queue is at its maxSize (no id).
-- A message id is a UUIDv7 that also says where the message is: 48 bits of milliseconds, version 7, 32
-- bits of the partition id around the variant, 40 bits of seq. Within a partition ids ascend with seq, and
-- seq_of_message_id leads from an id to the primary key, so queen.messages needs no index on id.
-- Tables: partition_lookup (row locks, update), messages (insert). The setting queen.tracks_lookup keeps the
-- trigger of queen.messages from doing the former once more; it ends with the function.
-- Locks: lookup rows in partition id order, held to commit; then, for queues with a maxSize, an advisory
-- lock per queue in id order. Nothing is locked after that.
-- Errors: QN001 a partition does not exist any more; 55P03 a row stayed locked for p_lock_timeout_ms.
CREATE OR REPLACE FUNCTION queen.push_messages(
    p_partition_ids uuid[],
    p_item_partitions integer[],
    p_transaction_ids text[],
    p_trace_ids uuid[],
    p_payloads text[],
    p_producer_subs text[],
    p_encrypted boolean[],
    p_lock_timeout_ms integer,
    OUT message_ids text[],
    OUT outcomes text
)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET queen.tracks_lookup = 'on'
AS $$
DECLARE
    -- The part of seq that a message id carries.
    c_seq_bits CONSTANT bigint := (1::bigint << 40) - 1;
    v_found uuid[];
    v_queue_ids uuid[];
    v_last_seqs bigint[];
    v_times timestamptz[];
    v_prefixes text[];
    v_rooms bigint[];
    v_winners uuid[];
    v_firsts integer[];
    v_ordinal integer;
BEGIN
    IF p_lock_timeout_ms IS NOT NULL THEN
        PERFORM set_config('lock_timeout', p_lock_timeout_ms::text, true);
    END IF;

    -- Lock first, then look: a statement's snapshot is older than its lock wait, so the duplicate check
    -- below must be a statement of its own. The time is taken under the lock and is never behind the
    -- partition's newest message: a clock step back must not break the order of created_at, which
    -- delays, windows and seeks rely on.
    SELECT array_agg(l.partition_id), array_agg(l.queue_id), array_agg(l.last_seq), array_agg(c.now),
           array_agg(lpad(to_hex(floor(extract(epoch FROM c.now) * 1000)::bigint), 12, '0')
                     || '7' || substr(l.partition_id::text, 1, 3)
                     || '8' || substr(l.partition_id::text, 4, 5))
    INTO v_found, v_queue_ids, v_last_seqs, v_times, v_prefixes
    FROM (
        SELECT partition_id, queue_id, last_seq, last_message_created_at
        FROM queen.partition_lookup
        WHERE partition_id = ANY (p_partition_ids)
        ORDER BY partition_id
        FOR NO KEY UPDATE
    ) l
    CROSS JOIN LATERAL (SELECT greatest(l.last_message_created_at, clock_timestamp()) AS now) c;
    IF v_found IS DISTINCT FROM p_partition_ids THEN
        RAISE EXCEPTION 'a partition of this push does not exist any more' USING ERRCODE = 'QN001';
    END IF;
    v_rooms := queen.queue_rooms(v_queue_ids, p_item_partitions);
    IF p_transaction_ids IS NOT NULL THEN
        SELECT r.winners, r.firsts INTO v_winners, v_firsts
        FROM queen.find_repeats(v_found, p_item_partitions, p_transaction_ids) r;
    END IF;

    WITH counted AS (
        SELECT i.*, i.winner IS NULL AND coalesce(i.first = i.ordinal, true) AS is_new,
               count(*) FILTER (WHERE i.winner IS NULL AND coalesce(i.first = i.ordinal, true))
                   OVER (PARTITION BY i.k ORDER BY i.ordinal) AS place
        FROM unnest(p_item_partitions, p_transaction_ids, p_trace_ids, p_payloads, p_producer_subs,
                    p_encrypted, v_winners, v_firsts)
             WITH ORDINALITY
             AS i (k, tx, trace_id, payload, producer_sub, is_encrypted, winner, first, ordinal)
    ), numbered AS MATERIALIZED (
        SELECT c.*, v_last_seqs[c.k] + c.place AS seq,
               c.is_new AND (v_rooms IS NULL OR c.place <= coalesce(v_rooms[c.k], c.place)) AS is_stored,
               CASE WHEN c.is_new
                    THEN (v_prefixes[c.k] || lpad(to_hex((v_last_seqs[c.k] + c.place) & c_seq_bits),
                                                  10, '0'))::uuid
                    ELSE c.winner END AS id
        FROM counted c
    ), stored AS (
        INSERT INTO queen.messages (partition_id, seq, id, queue_id, transaction_id, trace_id,
                                    created_at, producer_sub, is_encrypted, payload)
        SELECT v_found[n.k], n.seq, n.id, v_queue_ids[n.k], n.tx, n.trace_id,
               v_times[n.k], n.producer_sub, coalesce(n.is_encrypted, false), n.payload::json
        FROM numbered n
        WHERE n.is_stored
    ), moved AS (
        UPDATE queen.partition_lookup l
        SET last_seq = h.seq,
            last_message_id = (v_prefixes[h.k] || lpad(to_hex(h.seq & c_seq_bits), 10, '0'))::uuid,
            last_message_created_at = v_times[h.k]
        FROM (
            SELECT n.k, v_found[n.k] AS partition_id, max(n.seq) AS seq
            FROM numbered n WHERE n.is_stored GROUP BY n.k
        ) h
        WHERE l.partition_id = h.partition_id
    )
    SELECT array_agg(r.id ORDER BY r.ordinal), string_agg(r.outcome, '' ORDER BY r.ordinal)
    INTO message_ids, outcomes
    FROM (
        SELECT n.ordinal, n.id::text AS id,
               CASE WHEN n.is_stored THEN 'q' WHEN n.is_new THEN 'f' ELSE 'd' END AS outcome
        FROM numbered n
    ) r;

    -- A repeat within the call shares the fate of its first: the same id, or refused as well.
    FOR v_ordinal IN SELECT u.n FROM unnest(v_winners, v_firsts) WITH ORDINALITY AS u (winner, first, n)
                     WHERE u.winner IS NULL AND u.first < u.n
    LOOP
        message_ids[v_ordinal] := message_ids[v_firsts[v_ordinal]];
        IF substr(outcomes, v_firsts[v_ordinal], 1) = 'f' THEN
            outcomes := overlay(outcomes PLACING 'f' FROM v_ordinal);
        END IF;
    END LOOP;
END
$$;
