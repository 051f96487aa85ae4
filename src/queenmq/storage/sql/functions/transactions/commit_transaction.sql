-- Push and ack in one transaction: all of it, or nothing and an error that says which part failed.
--
-- Arguments: those of push_messages and ack_messages, and the leases that must not have been lost. p_key: what the
-- transaction is recognised by, NULL for one that is not; p_digest: of everything it does. p_is_key_derived: the
-- key was not given by the caller but made of the acks.
-- Result: the ids and outcomes of the pushed items (an item may be queued behind operations that wait in its
-- partition, or behind a batch of Spark; that is part of the transaction as well); for each ack whether it made a
-- dead letter and, where its partition has more and no live lease now, the names of that.
-- A transaction with the key of one that was committed before changes nothing and has its result: is_repeat. With
-- a derived key that holds while the messages acked without a lease have passed; after a seek the same acks mean
-- another delivery.
-- A named lease is lost when it has expired or was taken over before its messages were acked.
-- Errors: QN010 an ack was refused, QN011 a lease was lost, QN012 a pushed transaction id is a duplicate, QN013 the
-- key was used for something else, QN002 a queue is at its maxSize, QN003 too many operations wait in a partition,
-- QN001 a partition does not exist any more.
-- Tables: transactions (insert, update), those of push_messages and ack_messages.
-- Locks: the row of the key, so that of two copies one waits; then those of lock_partitions, then cursor rows, each
-- in key order, as all functions do.
CREATE OR REPLACE FUNCTION queen.commit_transaction(
    p_partition_ids uuid[],
    p_item_partitions integer[],
    p_transaction_ids text[],
    p_trace_ids uuid[],
    p_payloads text[],
    p_producer_subs text[],
    p_encrypted boolean[],
    p_queue_max integer,
    p_ack_partition_ids uuid[],
    p_ack_consumer_groups text[],
    p_ack_transaction_ids text[],
    p_ack_lease_ids uuid[],
    p_ack_statuses text[],
    p_ack_errors text[],
    p_required_leases uuid[],
    p_lock_timeout_ms integer,
    p_key uuid DEFAULT NULL,
    p_digest uuid DEFAULT NULL,
    p_is_key_derived boolean DEFAULT false,
    OUT message_ids text[],
    OUT outcomes text,
    OUT positions bigint[],
    OUT is_dlq boolean[],
    OUT freed_queues text[],
    OUT freed_partitions text[],
    OUT is_repeat boolean
)
LANGUAGE plpgsql
AS $$
DECLARE
    v_held uuid[];
    v_problem text;
    v_known record;
BEGIN
    PERFORM set_config('lock_timeout', p_lock_timeout_ms::text, true);
    is_repeat := false;
    INSERT INTO queen.transactions (key, digest)
    SELECT p_key, p_digest WHERE p_key IS NOT NULL
    ON CONFLICT (key) DO NOTHING;
    IF p_key IS NOT NULL AND NOT FOUND THEN
        SELECT t.* INTO v_known FROM queen.transactions t WHERE t.key = p_key FOR UPDATE;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'an older transaction of this key was just swept' USING ERRCODE = '40001';
        END IF;
        IF v_known.digest <> p_digest THEN
            RAISE EXCEPTION 'The idempotencyKey was used for another transaction; use a new one for each'
                USING ERRCODE = 'QN013';
        END IF;
        is_repeat := NOT p_is_key_derived OR NOT EXISTS (
            SELECT FROM unnest(p_ack_partition_ids, p_ack_consumer_groups, p_ack_transaction_ids, p_ack_lease_ids)
                AS a (partition_id, consumer_group, transaction_id, lease_id)
            CROSS JOIN LATERAL (SELECT queen.find_message(a.partition_id, a.transaction_id) AS seq) m
            WHERE a.lease_id IS NULL AND m.seq IS NOT NULL
              AND NOT EXISTS (SELECT FROM queen.partition_consumers pc
                              WHERE pc.partition_id = a.partition_id AND pc.consumer_group = a.consumer_group
                                AND pc.cursor_seq >= m.seq));
    END IF;
    IF is_repeat THEN
        message_ids := v_known.message_ids;
        outcomes := v_known.outcomes;
        positions := v_known.positions;
        is_dlq := v_known.is_dlq;
        RETURN;
    END IF;

    v_held := queen.lock_partitions(p_partition_ids, p_ack_partition_ids);

    IF cardinality(p_partition_ids) > 0 THEN
        SELECT r.* INTO message_ids, outcomes, positions
        FROM queen.push_messages(p_partition_ids, p_item_partitions, p_transaction_ids, p_trace_ids,
                                 p_payloads, p_producer_subs, p_encrypted,
                                 ARRAY[cardinality(p_item_partitions)], nullif(v_held, '{}'), p_queue_max, false,
                                 false, NULL) r;
        IF strpos(outcomes, 'f') > 0 THEN
            RAISE EXCEPTION 'The queue of push item % is full', strpos(outcomes, 'f') - 1
                USING ERRCODE = 'QN002';
        ELSIF strpos(outcomes, 'd') > 0 THEN
            RAISE EXCEPTION 'Duplicate transactionId % in push item %',
                p_transaction_ids[strpos(outcomes, 'd')], strpos(outcomes, 'd') - 1
                USING ERRCODE = 'QN012';
        ELSIF strpos(outcomes, 's') > 0 THEN
            -- push_messages takes what it is told to queue for a sign of pressure. Here it keeps the order.
            UPDATE queen.operation_queue o SET reason = 'maintaining_order'
            FROM unnest(message_ids, string_to_array(outcomes, NULL)) AS u (id, outcome)
            WHERE o.id = u.id::uuid AND u.outcome = 's';
            outcomes := translate(outcomes, 's', 'b');
        END IF;
    END IF;

    PERFORM queen.create_cursors(p_ack_partition_ids, p_ack_consumer_groups, true);
    PERFORM FROM queen.partition_consumers pc
    WHERE (pc.partition_id, pc.consumer_group) IN (
        SELECT u.p, u.g FROM unnest(p_ack_partition_ids, p_ack_consumer_groups) AS u (p, g)
        UNION
        SELECT f.partition_id, f.consumer_group
        FROM unnest(p_required_leases) AS r (lease_id), queen.find_lease(r.lease_id) f)
    ORDER BY pc.partition_id, pc.consumer_group
    FOR UPDATE OF pc;

    SELECT r.lease_id::text INTO v_problem
    FROM unnest(p_required_leases) AS r (lease_id)
    WHERE NOT EXISTS (
        SELECT FROM queen.find_lease(r.lease_id) f
        JOIN queen.partition_consumers pc
            ON pc.partition_id = f.partition_id AND pc.consumer_group = f.consumer_group
        WHERE pc.lease_id = r.lease_id
          AND (pc.lease_expires_at > clock_timestamp()
               OR (pc.lease_expires_at IS NULL AND pc.cursor_seq >= pc.lease_end_seq)))
    LIMIT 1;
    IF v_problem IS NOT NULL THEN
        RAISE EXCEPTION 'Lease % was lost before its messages were acknowledged; pop them again', v_problem
            USING ERRCODE = 'QN011';
    END IF;

    IF cardinality(p_ack_partition_ids) > 0 THEN
        SELECT array_agg(a.dlq ORDER BY a.ordinal),
               array_agg(CASE WHEN a.has_more THEN a.queue_name END ORDER BY a.ordinal),
               array_agg(CASE WHEN a.has_more THEN a.partition_name END ORDER BY a.ordinal),
               min(format('%s (ack of %s)', coalesce(a.error, 'Not applied'),
                          p_ack_transaction_ids[a.ordinal]))
                   FILTER (WHERE NOT a.success)
        INTO is_dlq, freed_queues, freed_partitions, v_problem
        FROM queen.ack_messages(p_ack_partition_ids, p_ack_consumer_groups, p_ack_transaction_ids,
                                p_ack_lease_ids, p_ack_statuses, p_ack_errors, true, NULL) a;
        IF v_problem IS NOT NULL THEN
            RAISE EXCEPTION '%', v_problem USING ERRCODE = 'QN010';
        END IF;
    END IF;

    -- Not those of the queue that came free: only the first is to wake consumers.
    UPDATE queen.transactions t
    SET committed_at = clock_timestamp(), message_ids = commit_transaction.message_ids,
        outcomes = commit_transaction.outcomes, positions = commit_transaction.positions,
        is_dlq = commit_transaction.is_dlq
    WHERE t.key = p_key;
END
$$;
