-- Accept items without storing them as messages yet: an operation per request and partition, to be run in order by any
-- broker.
--
-- Arguments: items as in push_messages; p_item_requests has the number of the request that each belongs to,
-- p_item_indexes its place there. p_is_behind: per partition, whether operations wait there already (if not,
-- the broker is under pressure). p_queue_max: operations that may wait in one partition; 0 when too many wait in
-- all.
-- Result: per item the operation, and how many operations were in line up to and including it.
-- Tables: operation_queue (insert).
-- Locks: the lookup rows FOR KEY SHARE, without waiting, so that no partition is deleted meanwhile; then those
-- of lock_lines, so that operations of a partition become visible in the order of their seq. A push that holds
-- its partition's row in a long transaction is not waited for here; the runner of the operation waits for it.
-- Errors: QN001 a partition does not exist any more, or is being deleted; QN003 too many operations wait in
-- partitions, whose ids are in the DETAIL, how many in the HINT, and the setting that says so in the CONSTRAINT.
CREATE OR REPLACE FUNCTION queen.queue_push(
    p_partition_ids uuid[],
    p_item_partitions integer[],
    p_transaction_ids text[],
    p_trace_ids uuid[],
    p_payloads text[],
    p_producer_subs text[],
    p_encrypted boolean[],
    p_item_requests integer[],
    p_item_indexes integer[],
    p_is_behind boolean[],
    p_queue_max integer,
    OUT operation_ids text[],
    OUT positions bigint[]
)
LANGUAGE plpgsql
AS $$
DECLARE
    c_priority CONSTANT integer := 5;
    v_found bigint;
    v_full uuid[];
    v_depth bigint;
BEGIN
    -- Only a deletion is in the way of this, and that is as good as gone. Waiting for it could be waiting in a
    -- circle: the push may hold rows of other partitions.
    PERFORM FROM queen.partition_lookup WHERE partition_id = ANY (p_partition_ids)
    FOR KEY SHARE SKIP LOCKED;
    GET DIAGNOSTICS v_found = ROW_COUNT;
    IF v_found <> cardinality(p_partition_ids) THEN
        RAISE EXCEPTION 'a partition of this push does not exist any more' USING ERRCODE = 'QN001';
    END IF;
    PERFORM queen.lock_lines(p_partition_ids);

    SELECT array_agg(n.partition_id), max(w.operations) INTO v_full, v_depth
    FROM (SELECT p_partition_ids[i.k] AS partition_id, count(DISTINCT i.request) AS operations
          FROM unnest(p_item_partitions, p_item_requests) AS i (k, request) GROUP BY i.k) n
    CROSS JOIN LATERAL (SELECT count(*) AS operations FROM queen.operation_queue o
                        WHERE o.partition_id = n.partition_id AND o.is_blocking) w
    WHERE n.operations > p_queue_max - w.operations;
    IF v_full IS NOT NULL THEN
        IF p_queue_max = 0 THEN
            SELECT count(*) INTO v_depth FROM queen.operation_queue o WHERE o.is_blocking;
        END IF;
        RAISE EXCEPTION '% operations are already waiting; nothing was stored, try again', v_depth
            USING ERRCODE = 'QN003', DETAIL = v_full::text, HINT = v_depth::text,
                  CONSTRAINT = CASE WHEN p_queue_max = 0 THEN 'load_push_queue_max'
                                    ELSE 'load_partition_queue_max' END;
    END IF;

    -- A list per column, because an object per item takes longer than storing it would. Payloads are kept as
    -- strings: PostgreSQL cannot read a field of JSON that holds an escape such as \u0000 anywhere, while it
    -- stores such JSON. The cast refuses now what the run would refuse.
    WITH grouped AS MATERIALIZED (
        SELECT i.k, i.request, queen.new_operation_id() AS id, array_agg(i.n ORDER BY i.n) AS ordinals,
               sum(octet_length(i.payload)) AS size,
               json_build_object(
                   'payloads', array_agg((i.payload::json)::text ORDER BY i.n),
                   'indexes', array_agg(i.index ORDER BY i.n),
                   'transactionIds', CASE WHEN count(i.tx) > 0 THEN array_agg(i.tx ORDER BY i.n) END,
                   'traceIds', CASE WHEN count(i.trace_id) > 0 THEN array_agg(i.trace_id ORDER BY i.n) END,
                   'producerSubs', CASE WHEN count(i.sub) > 0 THEN array_agg(i.sub ORDER BY i.n) END,
                   'isEncrypted', CASE WHEN count(i.is_encrypted) > 0
                                       THEN array_agg(i.is_encrypted ORDER BY i.n) END) AS payload
        FROM unnest(p_item_partitions, p_transaction_ids, p_trace_ids, p_payloads, p_producer_subs,
                    p_encrypted, p_item_requests, p_item_indexes)
             WITH ORDINALITY AS i (k, tx, trace_id, payload, sub, is_encrypted, request, index, n)
        GROUP BY i.k, i.request
    ), numbered AS (
        SELECT g.*,
               coalesce((SELECT max(o.seq) FROM queen.operation_queue o
                         WHERE o.partition_id = p_partition_ids[g.k]), 0)
               + row_number() OVER (PARTITION BY g.k ORDER BY g.request) AS seq,
               (SELECT count(*) FROM queen.operation_queue o WHERE o.is_blocking)
               + row_number() OVER (ORDER BY g.request, g.k) AS position
        FROM grouped g
    ), stored AS (
        INSERT INTO queen.operation_queue (
            id, operation_type, queue_name, partition_name, queue_id, partition_id, seq, priority, payload,
            item_count, estimated_size, reason)
        SELECT n.id, 'PUSH', q.name, p.name, q.id, p.id, n.seq, c_priority, n.payload,
               cardinality(n.ordinals), n.size,
               CASE WHEN p_is_behind[n.k] THEN 'maintaining_order' ELSE 'system_busy' END
        FROM numbered n
        JOIN queen.partitions p ON p.id = p_partition_ids[n.k]
        JOIN queen.queues q ON q.id = p.queue_id
    )
    SELECT array_agg(n.id::text ORDER BY u.ordinal), array_agg(n.position ORDER BY u.ordinal)
    INTO operation_ids, positions
    FROM numbered n CROSS JOIN LATERAL unnest(n.ordinals) AS u (ordinal);
END
$$;
