-- Pop for many requests in one call: lease, fetch, and give back what turned out to be empty. A lease ends with the
-- last message that is there (cut_lease).
--
-- Arguments and candidate order: see pop_sm_lease. p_apart_count: a lease over more messages than this is
-- granted without reading them, so that one large batch does not hold up the other requests of the call.
-- Result: one row per candidate that pop_sm_lease answered; where outcome is granted, messages is the
-- inside of a JSON array. leased: granted, but to be read apart with pop_sm_fetch. again: something was
-- settled on the way (a poison message, a hole in the sequence) and the candidate is worth another try.
-- due_ms is the time until the candidate may become deliverable; where it is granted or leased, the Unix time in
-- milliseconds at which its lease ends, NULL for one without.
-- Candidates that need no more than the simplest rule go through lease_plain, all others through pop_sm_lease.
-- Tables and locks: those of lease_plain, create_cursors, pop_sm_lease, settle_poison, cut_lease and pop_sm_release,
-- in that order.
CREATE OR REPLACE FUNCTION queen.pop_messages_batch(
    p_requests integer[],
    p_partition_ids uuid[],
    p_consumer_groups text[],
    p_batches integer[],
    p_auto_acks boolean[],
    p_lease_ids uuid[],
    p_apart_count integer DEFAULT NULL,
    p_lease_seconds integer[] DEFAULT NULL
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
    c_count CONSTANT integer := cardinality(p_requests);
    -- Only with several candidates can a lease cover more or others than the partition inside its id.
    c_is_single CONSTANT boolean := c_count = p_requests[c_count];
    v_plain queen.pop_grant[] := '{}';
    v_grants queen.pop_grant[] := '{}';
    v_reads queen.pop_grant[];
BEGIN
    IF c_is_single THEN
        LOOP
            v_plain := v_plain || queen.lease_plain(p_requests, p_partition_ids, p_consumer_groups, p_batches,
                                                    p_auto_acks, p_lease_ids, p_lease_seconds, p_apart_count);
            EXIT WHEN cardinality(v_plain) = c_count;
            IF v_plain <> '{}' THEN
                SELECT array_agg(u.request), array_agg(u.partition_id), array_agg(u.consumer_group),
                       array_agg(u.batch), array_agg(u.auto_ack), array_agg(u.lease_id),
                       array_agg(u.lease_seconds)
                INTO p_requests, p_partition_ids, p_consumer_groups, p_batches, p_auto_acks, p_lease_ids,
                     p_lease_seconds
                FROM unnest(p_requests, p_partition_ids, p_consumer_groups, p_batches, p_auto_acks, p_lease_ids,
                            p_lease_seconds)
                     AS u (request, partition_id, consumer_group, batch, auto_ack, lease_id, lease_seconds)
                WHERE u.request <> ALL (ARRAY(SELECT g.request FROM unnest(v_plain) g));
            END IF;
            -- A group's first pop of a partition finds no cursor.
            EXIT WHEN queen.create_cursors(p_partition_ids, p_consumer_groups, false) = 0;
        END LOOP;
    ELSE
        PERFORM queen.create_cursors(p_partition_ids, p_consumer_groups, false);
    END IF;
    IF cardinality(v_plain) < c_count THEN
        v_grants := ARRAY(
            SELECT g FROM queen.pop_sm_lease(p_requests, p_partition_ids, p_consumer_groups, p_batches,
                                             p_auto_acks, p_lease_ids, p_lease_seconds) g);
    END IF;
    v_reads := v_plain;
    IF v_grants <> '{}' THEN
        v_reads := v_reads || ARRAY(
            SELECT g FROM unnest(v_grants) g
            WHERE g.outcome = 'granted'
              AND (g.lease_id IS NULL OR p_apart_count IS NULL OR g.end_seq - g.after_seq <= p_apart_count));
    END IF;

    IF cardinality(v_reads) < cardinality(v_plain) + cardinality(v_grants) THEN
        PERFORM queen.settle_poison(g.partition_id, g.consumer_group)
        FROM unnest(v_grants) g WHERE g.outcome = 'poison';
        PERFORM queen.cut_lease(g.partition_id, g.consumer_group, g.lease_id, g.after_seq, g.end_seq)
        FROM unnest(v_grants) g
        WHERE g.outcome = 'granted' AND g.lease_id IS NOT NULL AND g.end_seq - g.after_seq > p_apart_count;
        RETURN QUERY
        SELECT g.request, g.partition_id,
               CASE g.outcome WHEN 'granted' THEN 'leased' WHEN 'poison' THEN 'again' ELSE g.outcome END,
               g.lease_id::text, g.has_more,
               extract(epoch FROM CASE WHEN g.outcome = 'granted' THEN g.due_at - timestamptz 'epoch'
                                       ELSE g.due_at - clock_timestamp() END)::double precision * 1000,
               g.after_seq, g.end_seq, g.attempts,
               NULL::text, NULL::text, NULL::bigint, NULL::boolean, NULL::text
        FROM unnest(v_grants) g
        -- All but v_reads.
        WHERE g.outcome <> 'granted' OR (g.lease_id IS NOT NULL AND g.end_seq - g.after_seq > p_apart_count);
    END IF;

    IF cardinality(v_reads) > 0 THEN
        RETURN QUERY
        SELECT f.request, f.partition_id,
               -- Deleted messages leave gaps, and a range that holds nothing is given back at once.
               CASE WHEN f.message_count = r.end_seq - r.after_seq THEN 'granted'
                    WHEN f.message_count > 0
                        THEN queen.cut_lease(f.partition_id, f.consumer_group, f.lease_id, r.after_seq, r.end_seq)
                    ELSE queen.return_empty(f.partition_id, f.consumer_group, f.lease_id, f.end_seq) END,
               coalesce(f.lease_id::text, ''), f.has_more,
               extract(epoch FROM r.due_at)::double precision * 1000,
               -- For return_taken, should the broker not be able to decrypt it.
               CASE WHEN f.is_encrypted AND f.lease_id IS NULL THEN r.after_seq END, f.end_seq, NULL::integer,
               f.partition_name, f.queue_name, f.message_count, f.is_encrypted, f.messages
        FROM queen.pop_sm_fetch(v_reads) f
        JOIN unnest(v_reads) r ON r.request = f.request AND r.partition_id = f.partition_id;
    END IF;

    IF NOT c_is_single THEN
        INSERT INTO queen.lease_partitions (lease_id, partition_id, consumer_group, partition_ids)
        SELECT g.lease_id, g.partition_ids[1], g.consumer_group, g.partition_ids
        FROM (SELECT u.lease_id, u.consumer_group, array_agg(u.partition_id) AS partition_ids
              FROM unnest(v_grants) u WHERE u.lease_id IS NOT NULL
              GROUP BY u.lease_id, u.consumer_group) g
        WHERE cardinality(g.partition_ids) > 1
           OR left(g.partition_ids[1]::text, 13) <> left(g.lease_id::text, 13);
    END IF;
END
$$;
