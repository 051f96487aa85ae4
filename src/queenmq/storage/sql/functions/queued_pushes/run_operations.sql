-- Run claimed operations: store their items and mark them completed, in one transaction, all or none.
--
-- Arguments: the operations of one claim, without gaps in their partitions, and its token.
-- Result: the number of messages stored.
-- Tables: operation_queue (update; those of deleted partitions are removed), those of push_messages.
-- Locks: the operations in id order, then those of push_messages.
-- Errors: QN004 the claim was lost meanwhile, so another broker runs these or they were discarded; those of
-- push_messages. No maxSize is in the way: the items were accepted, and queue_rooms has counted them since.
CREATE OR REPLACE FUNCTION queen.run_operations(
    p_ids uuid[],
    p_token uuid,
    p_lock_timeout_ms integer
)
RETURNS bigint
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_locked bigint;
    v_gone bigint;
    v_partition_ids uuid[];
    v_items record;
    v_pushed record;
BEGIN
    PERFORM set_config('lock_timeout', p_lock_timeout_ms::text, true);
    PERFORM FROM queen.operation_queue o
    WHERE o.id = ANY (p_ids) AND o.claim_token = p_token
    ORDER BY o.id FOR UPDATE;
    GET DIAGNOSTICS v_locked = ROW_COUNT;
    IF v_locked <> cardinality(p_ids) THEN
        RAISE EXCEPTION 'the claim was lost' USING ERRCODE = 'QN004';
    END IF;

    -- What was queued while its queue was deleted goes with it.
    DELETE FROM queen.operation_queue o
    WHERE o.id = ANY (p_ids)
      AND NOT EXISTS (SELECT FROM queen.partition_lookup l WHERE l.partition_id = o.partition_id);
    GET DIAGNOSTICS v_gone = ROW_COUNT;
    IF v_gone = cardinality(p_ids) THEN
        RETURN 0;
    END IF;
    v_partition_ids := ARRAY(SELECT DISTINCT o.partition_id FROM queen.operation_queue o
                             WHERE o.id = ANY (p_ids) ORDER BY 1);
    SELECT array_agg(i.id ORDER BY i.n) AS ids, array_agg(i.index ORDER BY i.n) AS indexes,
           array_agg(i.place::integer ORDER BY i.n) AS places, array_agg(i.tx ORDER BY i.n) AS txs,
           array_agg(i.trace_id ORDER BY i.n) AS trace_ids, array_agg(i.payload ORDER BY i.n) AS payloads,
           array_agg(i.sub ORDER BY i.n) AS subs, array_agg(i.is_encrypted ORDER BY i.n) AS encrypted
    INTO v_items
    FROM (
        SELECT o.id, o.place, e.*, row_number() OVER (ORDER BY o.place, o.seq, e.item) AS n
        FROM (SELECT x.id, x.seq, x.payload, p.place
              FROM unnest(v_partition_ids) WITH ORDINALITY AS p (id, place)
              JOIN queen.operation_queue x ON x.partition_id = p.id AND x.id = ANY (p_ids)) o
        CROSS JOIN LATERAL json_to_record(o.payload) AS c (
            payloads text[], indexes integer[], "transactionIds" text[], "traceIds" uuid[],
            "producerSubs" text[], "isEncrypted" boolean[])
        CROSS JOIN LATERAL unnest(c.payloads, c.indexes, c."transactionIds", c."traceIds",
                                  c."producerSubs", c."isEncrypted")
            WITH ORDINALITY AS e (payload, index, tx, trace_id, sub, is_encrypted, item)
    ) i;
    SELECT * INTO v_pushed FROM queen.push_messages(
        v_partition_ids, v_items.places, v_items.txs, v_items.trace_ids, v_items.payloads, v_items.subs,
        v_items.encrypted, NULL, NULL, NULL, false, true, NULL);

    UPDATE queen.operation_queue o
    SET status = 'completed', is_blocking = false, processed_at = clock_timestamp(), payload = 'null',
        claim_token = NULL, claimed_by_worker = NULL, processing_started_at = NULL, result = r.result
    FROM (
        SELECT u.id, json_agg(json_build_object(
                   'index', u.index, 'transaction_id', coalesce(u.tx, u.message_id),
                   'status', CASE WHEN u.letter = 'q' THEN 'queued' ELSE 'duplicate' END,
                   'message_id', u.message_id, 'trace_id', u.trace_id) ORDER BY u.n) AS result
        FROM unnest(v_items.ids, v_items.indexes, v_items.txs, v_items.trace_ids, v_pushed.message_ids,
                    string_to_array(v_pushed.outcomes, NULL))
             WITH ORDINALITY AS u (id, index, tx, trace_id, message_id, letter, n)
        GROUP BY u.id
    ) r
    WHERE o.id = r.id;
    RETURN length(replace(v_pushed.outcomes, 'd', ''));
END
$$;
