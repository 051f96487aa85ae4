-- Store the items of one or many push requests; all of them or, on an error, none.
--
-- Arguments: p_partition_ids holds the distinct partitions in ascending order; the arrays after it have one
-- element per item, in push order, p_item_partitions being positions in p_partition_ids. An array that would
-- hold only NULLs may be NULL. p_encrypted: true where the payload is encrypted, NULL where it is not, which an
-- encrypted queue refuses, and false where it takes a payload in clear: one that it had so before.
-- p_request_sizes: how many items each request has. p_queued_ids: partitions whose items are to be queued as
-- operations (NULL: none); those where operations wait already are queued behind them in any case, p_queue_max being
-- the most that may wait in a partition. A p_queue_max of NULL is for the runner of operations: nothing is queued.
-- p_looks_first: operations are likely, so partitions where they wait are left out before any lock. Otherwise a push
-- would wait for a run that it has to follow. p_is_accepted: the items were accepted before, so no maxSize refuses
-- them: it bounds what is accepted. p_lock_timeout_ms bounds the wait for each partition's row; NULL leaves the
-- caller's own setting. p_are_ids_new: no duplicate check before the insert, so a transaction id that is repeated
-- is an error instead of a duplicate, unless it is the message id of one pushed without: the caller has seen that it
-- is none. p_keys, p_digests, p_origins: the idempotency keys of the requests (note_push_keys), NULL without any.
-- Result: one row of arrays in item order. outcomes: q queued, d duplicate (message_ids then has the
-- stored winner), f refused because the queue is at its maxSize (no id), see find_unfit; b behind operations and
-- s as asked by p_queued_ids: message_ids then has the operation and positions its place in line.
-- Tables: partition_lookup (row locks, update), messages (insert). The flag queen.tracks_lookup keeps the trigger of
-- queen.messages from updating partition_lookup again. It is on during the insert only.
-- Locks: lookup rows in partition id order, held to commit; then, where something is queued, those of lock_lines;
-- then, for queues with a maxSize and unless p_is_accepted, those of queue_rooms; last, those of note_push_keys.
-- Errors: QN001 a partition does not exist any more; QN003 too many operations wait (see queue_push); QN005 a queue is
-- encrypted and an item for it is not; QN014 a key was used before; 55P03 a row stayed locked for p_lock_timeout_ms;
-- 23505 with p_are_ids_new, a transaction id is repeated.
CREATE OR REPLACE FUNCTION queen.push_messages(
    p_partition_ids uuid[],
    p_item_partitions integer[],
    p_transaction_ids text[],
    p_trace_ids uuid[],
    p_payloads text[],
    p_producer_subs text[],
    p_encrypted boolean[],
    p_request_sizes integer[],
    p_queued_ids uuid[],
    p_queue_max integer,
    p_looks_first boolean,
    p_is_accepted boolean,
    p_lock_timeout_ms integer,
    p_are_ids_new boolean DEFAULT false,
    p_keys uuid[] DEFAULT NULL,
    p_digests uuid[] DEFAULT NULL,
    p_origins uuid[] DEFAULT NULL,
    OUT message_ids text[], OUT outcomes text, OUT positions bigint[]
)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_direct uuid[] := p_partition_ids;
    v_early uuid[];
    v_waiting uuid[];
    v_behind uuid[];
    v_apart record;
    v_ordinals bigint[];
    v_found uuid[];
    v_queue_ids uuid[];
    v_last_seqs bigint[];
    v_times timestamptz[];
    v_prefixes text[];
    v_is_bounded boolean;
    v_sealed_ids uuid[];
    v_unfit bigint[];
    v_winners uuid[];
    v_firsts integer[];
    v_seqs bigint[];
    v_ids uuid[];
    v_flag text;
BEGIN
    IF p_lock_timeout_ms IS NOT NULL THEN
        PERFORM set_config('lock_timeout', p_lock_timeout_ms::text, true);
    END IF;
    IF p_looks_first THEN
        SELECT array_agg(DISTINCT o.partition_id) INTO v_early
        FROM queen.operation_queue o WHERE o.partition_id = ANY (p_partition_ids) AND o.is_blocking;
        v_early := nullif(coalesce(v_early, '{}') || queen.find_publishing(
            ARRAY(SELECT u.id FROM unnest(p_partition_ids) AS u (id)
                  WHERE u.id <> ALL (coalesce(v_early || p_queued_ids, v_early, p_queued_ids, '{}')))), '{}');
    END IF;
    IF p_queued_ids IS NOT NULL OR v_early IS NOT NULL THEN
        v_direct := ARRAY(SELECT u.id FROM unnest(p_partition_ids) AS u (id)
                          WHERE u.id <> ALL (coalesce(p_queued_ids || v_early, p_queued_ids, v_early))
                          ORDER BY u.id);
    END IF;

    -- Once; again only when some items turn out to have to wait, or not to fit.
    LOOP
        -- Lock first, then look: a statement's snapshot is older than its lock wait, so the checks below
        -- must be statements of their own. The time is taken under the lock and is never behind the
        -- partition's newest message: a clock step back must not break the order of created_at, which
        -- delays, windows and seeks rely on.
        SELECT array_agg(l.partition_id), array_agg(l.queue_id), array_agg(l.last_seq), array_agg(c.now),
               array_agg(queen.id_prefix(l.number, c.now))
        INTO v_found, v_queue_ids, v_last_seqs, v_times, v_prefixes
        FROM (
            SELECT partition_id, queue_id, number, last_seq, last_message_created_at
            FROM queen.partition_lookup
            WHERE partition_id = ANY (v_direct)
            ORDER BY partition_id
            FOR NO KEY UPDATE
        ) l
        CROSS JOIN LATERAL (SELECT greatest(l.last_message_created_at, clock_timestamp()) AS now) c;
        IF coalesce(v_found, '{}') IS DISTINCT FROM v_direct THEN
            RAISE EXCEPTION 'a partition of this push does not exist any more' USING ERRCODE = 'QN001';
        END IF;

        v_waiting := NULL;
        IF p_queue_max IS NOT NULL AND v_ordinals IS NULL THEN
            SELECT array_agg(DISTINCT o.partition_id) INTO v_behind
            FROM queen.operation_queue o WHERE o.partition_id = ANY (p_partition_ids) AND o.is_blocking;
            v_behind := v_early || v_behind;
            v_waiting := p_queued_ids || v_behind;
        END IF;
        IF v_ordinals IS NULL THEN
            IF v_waiting IS NOT NULL THEN
                -- Of all partitions, also those that were left out above.
                v_queue_ids := ARRAY(SELECT l.queue_id FROM unnest(p_partition_ids) WITH ORDINALITY AS u (id, n)
                                     LEFT JOIN queen.partition_lookup l ON l.partition_id = u.id ORDER BY u.n);
            END IF;
            SELECT coalesce(bool_or(q.max_size > 0), false), array_agg(q.id) FILTER (WHERE q.encryption_enabled)
            INTO v_is_bounded, v_sealed_ids
            FROM queen.queues q WHERE q.id = ANY (v_queue_ids);
            -- What was accepted as an operation before its queue was encrypted stays as it was accepted.
            IF v_sealed_ids IS NOT NULL AND p_queue_max IS NOT NULL AND EXISTS (
                SELECT FROM unnest(p_item_partitions, p_encrypted) AS i (k, is_encrypted)
                WHERE i.is_encrypted IS NULL AND v_queue_ids[i.k] = ANY (v_sealed_ids)) THEN
                RAISE EXCEPTION 'a queue of this push is encrypted, and its payload is not'
                    USING ERRCODE = 'QN005', HINT = 'Push over HTTP: only brokers have the keys.';
            END IF;
            IF v_is_bounded AND NOT p_is_accepted THEN
                v_unfit := queen.find_unfit(p_partition_ids, v_queue_ids, p_item_partitions, p_transaction_ids,
                                            v_waiting);
            END IF;
        END IF;
        EXIT WHEN v_waiting IS NULL AND v_unfit IS NULL;

        SELECT * INTO v_apart FROM queen.split_push(
            p_partition_ids, p_item_partitions, p_transaction_ids, p_trace_ids, p_payloads, p_producer_subs,
            p_encrypted, v_unfit, p_request_sizes, coalesce(v_waiting, '{}'), coalesce(v_behind, '{}'),
            p_queue_max);
        v_unfit := NULL;
        v_direct := v_apart.partition_ids;
        p_partition_ids := v_direct;
        p_item_partitions := v_apart.item_partitions;
        p_transaction_ids := v_apart.transaction_ids;
        p_trace_ids := v_apart.trace_ids;
        p_payloads := v_apart.payloads;
        p_producer_subs := v_apart.producer_subs;
        p_encrypted := v_apart.encrypted;
        v_ordinals := coalesce(v_apart.ordinals, '{}');
    END LOOP;

    IF p_transaction_ids IS NOT NULL AND NOT p_are_ids_new THEN
        SELECT r.winners, r.firsts INTO v_winners, v_firsts
        FROM queen.find_repeats(v_found, p_item_partitions, p_transaction_ids, v_prefixes) r;
    END IF;

    -- Number, insert and move in statements of their own, which pass arrays on. One statement for all of it copies
    -- every payload from part to part, and so does unnest in FROM: large pushes took a sixth more.
    SELECT array_agg(n.seq),
           array_agg(CASE WHEN n.is_new THEN queen.message_id(v_prefixes[n.k], n.seq) ELSE n.winner END),
           string_agg(CASE WHEN n.is_new THEN 'q' ELSE 'd' END, '')
    INTO v_seqs, v_ids, outcomes
    FROM (
        SELECT i.k, i.winner, i.is_new,
               CASE WHEN i.is_new THEN v_last_seqs[i.k] + count(*) FILTER (WHERE i.is_new)
                                                          OVER (PARTITION BY i.k ORDER BY i.ordinal) END AS seq
        FROM (
            SELECT u.k, u.winner, u.ordinal, u.winner IS NULL AND coalesce(u.first = u.ordinal, true) AS is_new
            FROM (SELECT unnest(p_item_partitions) AS k, unnest(v_winners) AS winner, unnest(v_firsts) AS first,
                         generate_subscripts(p_item_partitions, 1) AS ordinal) u
        ) i
        ORDER BY i.ordinal
    ) n;
    IF v_firsts IS NOT NULL THEN
        -- A repeat within the call has the id of its first.
        v_ids := ARRAY(SELECT coalesce(u.id, v_ids[u.first])
                       FROM unnest(v_ids, v_firsts) WITH ORDINALITY AS u (id, first, ordinal) ORDER BY u.ordinal);
    END IF;
    message_ids := v_ids::text[];

    -- Not a SET clause of the function: only a superuser may store one that names a setting of our own. An
    -- error takes the flag back together with the insert, for a caller that catches it.
    v_flag := set_config('queen.tracks_lookup', 'on', true);
    INSERT INTO queen.messages (partition_id, seq, id, queue_id, transaction_id, trace_id,
                                created_at, producer_sub, is_encrypted, payload)
    SELECT v_found[i.k], i.seq, i.id, v_queue_ids[i.k], i.tx, i.trace_id,
           v_times[i.k], i.producer_sub, coalesce(i.is_encrypted, false), i.payload::json
    FROM (SELECT unnest(p_item_partitions) AS k, unnest(v_seqs) AS seq, unnest(v_ids) AS id,
                 unnest(p_transaction_ids) AS tx, unnest(p_trace_ids) AS trace_id, unnest(p_payloads) AS payload,
                 unnest(p_producer_subs) AS producer_sub, unnest(p_encrypted) AS is_encrypted) i
    WHERE i.seq IS NOT NULL;
    v_flag := set_config('queen.tracks_lookup', '', true);

    UPDATE queen.partition_lookup l
    SET last_seq = h.seq,
        last_message_id = queen.message_id(v_prefixes[h.k], h.seq),
        last_message_created_at = v_times[h.k],
        last_xid = pg_current_xact_id()
    FROM (
        SELECT u.k, max(u.seq) AS seq
        FROM (SELECT unnest(p_item_partitions) AS k, unnest(v_seqs) AS seq) u
        WHERE u.seq IS NOT NULL
        GROUP BY u.k
    ) h
    WHERE l.partition_id = v_found[h.k];

    IF v_ordinals IS NOT NULL THEN
        SELECT j.message_ids, j.outcomes, j.positions INTO message_ids, outcomes, positions
        FROM queen.join_push(v_ordinals, message_ids, outcomes, v_apart.other_ordinals, v_apart.other_ids,
                             v_apart.letters, v_apart.positions) j;
    END IF;
    IF p_keys IS NOT NULL THEN
        PERFORM queen.note_push_keys(p_keys, p_digests, p_origins, p_request_sizes, message_ids, outcomes, positions);
    END IF;
END
$$;
