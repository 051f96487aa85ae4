-- Take out of a push the items that find no room, and queue those of some partitions as operations (queue_push).
--
-- Arguments: items as in push_messages; p_unfit: the places of those that find no room, as find_unfit says.
-- p_waiting_ids: the partitions to queue; p_behind_ids: those of them where operations wait already.
-- Result: what is left, in the same form, with its places in the push; and of what was taken out the places,
-- operations, letters (see push_messages) and places in line.
-- Locks and errors: those of queue_push.
CREATE OR REPLACE FUNCTION queen.split_push(
    p_partition_ids uuid[],
    p_item_partitions integer[],
    p_transaction_ids text[],
    p_trace_ids uuid[],
    p_payloads text[],
    p_producer_subs text[],
    p_encrypted boolean[],
    p_unfit bigint[],
    p_request_sizes integer[],
    p_waiting_ids uuid[],
    p_behind_ids uuid[],
    p_queue_max integer,
    OUT partition_ids uuid[],
    OUT item_partitions integer[],
    OUT transaction_ids text[],
    OUT trace_ids uuid[],
    OUT payloads text[],
    OUT producer_subs text[],
    OUT encrypted boolean[],
    OUT ordinals bigint[],
    OUT other_ordinals bigint[],
    OUT other_ids text[],
    OUT letters text,
    OUT positions bigint[]
)
LANGUAGE plpgsql
AS $$
DECLARE
    v_is_waiting boolean;
    v_requests integer[];
    v_indexes integer[];
BEGIN
    SELECT array_agg(r.request ORDER BY r.request, r.index), array_agg(r.index ORDER BY r.request, r.index)
    INTO v_requests, v_indexes
    FROM (SELECT u.n::integer AS request, g.index
          FROM unnest(p_request_sizes) WITH ORDINALITY AS u (size, n)
          CROSS JOIN LATERAL generate_series(0, u.size - 1) AS g (index)) r;

    -- First what is to be queued, then what is left; the columns are the same.
    FOREACH v_is_waiting IN ARRAY ARRAY[true, false] LOOP
        partition_ids := ARRAY(SELECT u.id FROM unnest(p_partition_ids) AS u (id)
                               WHERE (u.id = ANY (p_waiting_ids)) = v_is_waiting ORDER BY u.id);
        IF p_unfit IS NULL AND partition_ids = p_partition_ids THEN
            -- All of it, the usual case under load.
            item_partitions := p_item_partitions;
            transaction_ids := p_transaction_ids;
            trace_ids := p_trace_ids;
            payloads := p_payloads;
            producer_subs := p_producer_subs;
            encrypted := p_encrypted;
            ordinals := ARRAY(SELECT generate_series(1, cardinality(p_payloads))::bigint);
        ELSE
            SELECT array_agg(array_position(partition_ids, p_partition_ids[i.k]) ORDER BY i.n),
                   array_agg(i.tx ORDER BY i.n), array_agg(i.trace_id ORDER BY i.n),
                   array_agg(i.payload ORDER BY i.n), array_agg(i.sub ORDER BY i.n),
                   array_agg(i.is_encrypted ORDER BY i.n),
                   array_agg(i.n ORDER BY i.n)
            INTO item_partitions, transaction_ids, trace_ids, payloads, producer_subs, encrypted, ordinals
            FROM unnest(p_item_partitions, p_transaction_ids, p_trace_ids, p_payloads, p_producer_subs,
                        p_encrypted)
                 WITH ORDINALITY AS i (k, tx, trace_id, payload, sub, is_encrypted, n)
            WHERE (p_partition_ids[i.k] = ANY (p_waiting_ids)) = v_is_waiting
              AND NOT EXISTS (SELECT FROM unnest(p_unfit) AS u (n) WHERE u.n = i.n);
        END IF;
        CONTINUE WHEN NOT v_is_waiting OR ordinals IS NULL;

        other_ordinals := ordinals;
        SELECT q.operation_ids, q.positions INTO other_ids, positions
        FROM queen.queue_push(
            partition_ids, item_partitions, transaction_ids, trace_ids, payloads, producer_subs, encrypted,
            ARRAY(SELECT v_requests[u.o] FROM unnest(ordinals) WITH ORDINALITY AS u (o, n) ORDER BY u.n),
            ARRAY(SELECT v_indexes[u.o] FROM unnest(ordinals) WITH ORDINALITY AS u (o, n) ORDER BY u.n),
            ARRAY(SELECT u.id = ANY (p_behind_ids) FROM unnest(partition_ids) WITH ORDINALITY AS u (id, n)
                  ORDER BY u.n),
            p_queue_max) q;
        SELECT string_agg(CASE WHEN partition_ids[u.k] = ANY (p_behind_ids) THEN 'b' ELSE 's' END, ''
                          ORDER BY u.n)
        INTO letters
        FROM unnest(item_partitions) WITH ORDINALITY AS u (k, n);
    END LOOP;
    IF p_unfit IS NOT NULL THEN
        other_ordinals := other_ordinals || p_unfit;
        other_ids := other_ids || array_fill(NULL::text, ARRAY[cardinality(p_unfit)]);
        letters := concat(letters, repeat('f', cardinality(p_unfit)));
        positions := positions || array_fill(NULL::bigint, ARRAY[cardinality(p_unfit)]);
    END IF;
END
$$;
