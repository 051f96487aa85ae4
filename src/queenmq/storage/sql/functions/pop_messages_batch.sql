-- Pop for many requests in one call: lease, fetch, and give back what turned out to be empty.
--
-- Arguments and candidate order: see pop_sm_lease. p_apart_count: a lease over more messages than this is
-- granted without reading them, so that one large batch does not hold up the other requests of the call.
-- Result: one row per candidate that pop_sm_lease answered; where outcome is granted, messages is the
-- inside of a JSON array. leased: granted, but to be read apart with pop_sm_fetch. again: something was
-- settled on the way (a poison message, a hole in the sequence) and the candidate is worth another try.
-- due_ms is the time until the candidate may become deliverable.
-- Tables and locks: those of pop_sm_lease, settle_poison and pop_sm_release, in that order.
CREATE OR REPLACE FUNCTION queen.pop_messages_batch(
    p_requests integer[],
    p_partition_ids uuid[],
    p_consumer_groups text[],
    p_batches integer[],
    p_auto_acks boolean[],
    p_lease_ids uuid[],
    p_apart_count integer DEFAULT NULL
)
RETURNS TABLE (
    request integer,
    partition_id uuid,
    outcome text,
    lease_id text,
    has_more boolean,
    due_ms double precision,
    after_seq bigint,
    end_seq bigint,
    attempts integer,
    partition_name text,
    queue_name text,
    message_count bigint,
    is_encrypted boolean,
    messages text
)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    v_grants queen.pop_grant[];
    v_reads queen.pop_grant[] := '{}';
    v_grant queen.pop_grant;
    v_fetched record;
BEGIN
    v_grants := ARRAY(
        SELECT g FROM queen.pop_sm_lease(p_requests, p_partition_ids, p_consumer_groups, p_batches,
                                         p_auto_acks, p_lease_ids) g);
    -- Only a group's first pop of a partition finds no cursor; all others are spared the search for one.
    IF cardinality(v_grants) < cardinality(p_requests)
       AND queen.create_cursors(p_partition_ids, p_consumer_groups, false) > 0 THEN
        v_grants := v_grants || ARRAY(
            SELECT g
            FROM (
                SELECT array_agg(u.request ORDER BY u.n) AS requests,
                       array_agg(u.partition_id ORDER BY u.n) AS partition_ids,
                       array_agg(u.consumer_group ORDER BY u.n) AS consumer_groups,
                       array_agg(u.batch ORDER BY u.n) AS batches,
                       array_agg(u.auto_ack ORDER BY u.n) AS auto_acks,
                       array_agg(u.lease_id ORDER BY u.n) AS lease_ids
                FROM unnest(p_requests, p_partition_ids, p_consumer_groups, p_batches, p_auto_acks,
                            p_lease_ids) WITH ORDINALITY
                     AS u (request, partition_id, consumer_group, batch, auto_ack, lease_id, n)
                WHERE u.request <> ALL (ARRAY(SELECT a.request FROM unnest(v_grants) a))
            ) r
            CROSS JOIN LATERAL queen.pop_sm_lease(r.requests, r.partition_ids, r.consumer_groups,
                                                  r.batches, r.auto_acks, r.lease_ids) g);
    END IF;

    FOREACH v_grant IN ARRAY v_grants LOOP
        IF v_grant.outcome = 'granted' THEN
            IF v_grant.lease_id IS NULL OR p_apart_count IS NULL
               OR v_grant.end_seq - v_grant.after_seq <= p_apart_count THEN
                v_reads := v_reads || v_grant;
                CONTINUE;
            END IF;
            v_grant.outcome := 'leased';
        ELSIF v_grant.outcome = 'poison' THEN
            PERFORM queen.settle_poison(v_grant.partition_id, v_grant.consumer_group);
            v_grant.outcome := 'again';
        END IF;
        request := v_grant.request;
        partition_id := v_grant.partition_id;
        outcome := v_grant.outcome;
        lease_id := v_grant.lease_id::text;
        has_more := v_grant.has_more;
        due_ms := extract(epoch FROM v_grant.due_at - clock_timestamp())::double precision * 1000;
        after_seq := v_grant.after_seq;
        end_seq := v_grant.end_seq;
        attempts := v_grant.attempts;
        RETURN NEXT;
    END LOOP;
    due_ms := NULL;
    after_seq := NULL;
    attempts := NULL;

    IF cardinality(v_reads) > 0 THEN
        FOR v_fetched IN SELECT * FROM queen.pop_sm_fetch(v_reads) LOOP
            request := v_fetched.request;
            partition_id := v_fetched.partition_id;
            lease_id := coalesce(v_fetched.lease_id::text, '');
            has_more := v_fetched.has_more;
            end_seq := v_fetched.end_seq;
            partition_name := v_fetched.partition_name;
            queue_name := v_fetched.queue_name;
            message_count := v_fetched.message_count;
            is_encrypted := v_fetched.is_encrypted;
            messages := v_fetched.messages;
            outcome := 'granted';
            IF v_fetched.message_count = 0 THEN
                outcome := 'again';
                PERFORM queen.pop_sm_release(
                    ARRAY[v_fetched.partition_id], ARRAY[v_fetched.consumer_group],
                    ARRAY[v_fetched.lease_id], ARRAY[v_fetched.end_seq]);
            END IF;
            RETURN NEXT;
        END LOOP;
    END IF;

    -- Only with several candidates can a lease cover more or others than the partition inside its id.
    IF cardinality(p_requests) > p_requests[cardinality(p_requests)] THEN
        INSERT INTO queen.lease_partitions (lease_id, partition_id, consumer_group)
        SELECT g.lease_id, g.partition_id, g.consumer_group
        FROM (SELECT u.*, count(*) OVER (PARTITION BY u.request) AS partitions
              FROM unnest(v_grants) u WHERE u.lease_id IS NOT NULL) g
        WHERE g.partitions > 1 OR left(g.partition_id::text, 13) <> left(g.lease_id::text, 13);
    END IF;
END
$$;
