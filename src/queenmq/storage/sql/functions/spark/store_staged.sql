-- Store staged messages, for publish_staged, which holds the lookup rows of all their partitions.
--
-- Arguments: the stages in the order of their tasks; distinct partitions in ascending order, with the names
-- that staged rows have for them. Rows of other partitions are left alone.
-- Result: how many became messages, and how many have a transaction id that their partition has already or
-- that stands twice.
-- It does by the list what push_messages does by the item. What an id looks like, what is stored already and
-- how much room a queue has are the same functions there and here.
-- The settings: no statistics exist of rows that live for seconds, so plans are to hash the short lists
-- and never to loop over two long ones. Before release 18 PostgreSQL adds so much cost for a forbidden loop
-- that it would compile every call, for seconds, so that is off. A batch of usual size is to be sorted in memory. The flag
-- queen.tracks_lookup as in push_messages.
-- Tables: spark_staging (as drop_repeats), messages (insert), partition_lookup (update).
-- Locks: as drop_repeats, as queue_rooms.
-- Errors: QN002 a queue is at its maxSize.
CREATE OR REPLACE FUNCTION queen.store_staged(
    p_stage_ids uuid[],
    p_partition_ids uuid[],
    p_queue_names text[],
    p_partition_names text[],
    OUT stored bigint,
    OUT duplicates bigint
)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_nestloop = off
SET jit = off
SET work_mem = '128MB'
AS $$
DECLARE
    v_queue_ids uuid[];
    v_last_seqs bigint[];
    v_times timestamptz[];
    v_prefixes text[];
    v_counts bigint[];
    v_full text;
    v_flag text;
BEGIN
    duplicates := queen.drop_repeats(p_stage_ids, p_partition_ids, p_queue_names, p_partition_names);
    -- The time as in push_messages.
    SELECT array_agg(l.queue_id ORDER BY l.partition_id), array_agg(l.last_seq ORDER BY l.partition_id),
           array_agg(c.now ORDER BY l.partition_id),
           array_agg(queen.id_prefix(l.number, c.now) ORDER BY l.partition_id)
    INTO v_queue_ids, v_last_seqs, v_times, v_prefixes
    FROM queen.partition_lookup l
    CROSS JOIN LATERAL (SELECT greatest(l.last_message_created_at, clock_timestamp()) AS now) c
    WHERE l.partition_id = ANY (p_partition_ids);
    SELECT array_agg(coalesce(n.messages, 0) ORDER BY p.k) INTO v_counts
    FROM unnest(p_queue_names, p_partition_names) WITH ORDINALITY AS p (queue, name, k)
    LEFT JOIN (SELECT s.queue, s.partition, sum(cardinality(s.payloads)) AS messages
               FROM queen.spark_staging s WHERE s.stage_id = ANY (p_stage_ids)
               GROUP BY s.queue, s.partition) n ON n.queue = p.queue AND n.partition = p.name;

    SELECT min(n.queue) INTO v_full
    FROM queen.queue_rooms(v_queue_ids) r
    JOIN (SELECT u.queue_id, min(u.queue) AS queue, sum(u.messages) AS messages
          FROM unnest(v_queue_ids, p_queue_names, v_counts) AS u (queue_id, queue, messages)
          GROUP BY u.queue_id) n ON n.queue_id = r.queue_id
    WHERE n.messages > greatest(r.room, 0);
    IF v_full IS NOT NULL THEN
        RAISE EXCEPTION 'queue % is at its maxSize, so nothing of the batch was published', v_full
            USING ERRCODE = 'QN002';
    END IF;

    v_flag := set_config('queen.tracks_lookup', 'on', true);
    INSERT INTO queen.messages
        (partition_id, seq, id, queue_id, transaction_id, trace_id, created_at, is_encrypted, payload)
    SELECT c.partition_id, c.seq + i.n, queen.message_id(c.prefix, c.seq + i.n), c.queue_id,
           i.transaction_id, i.trace_id::uuid, c.created_at, c.is_encrypted, i.payload::json
    FROM (SELECT p_partition_ids[p.k] AS partition_id, v_prefixes[p.k] AS prefix, v_queue_ids[p.k] AS queue_id,
                 v_times[p.k] AS created_at, s.payloads, s.transaction_ids, s.trace_ids, s.is_encrypted,
                 -- That of the last message before this list.
                 v_last_seqs[p.k] + sum(cardinality(s.payloads)) OVER line - cardinality(s.payloads) AS seq
          FROM queen.spark_staging s
          JOIN unnest(p_stage_ids) WITH ORDINALITY AS g (stage_id, task) ON g.stage_id = s.stage_id
          JOIN unnest(p_queue_names, p_partition_names) WITH ORDINALITY AS p (queue, name, k)
              ON p.queue = s.queue AND p.name = s.partition
          WHERE s.stage_id = ANY (p_stage_ids)
          WINDOW line AS (PARTITION BY p.k ORDER BY g.task, s.ordinal ROWS UNBOUNDED PRECEDING)) c
    CROSS JOIN LATERAL unnest(c.payloads, c.transaction_ids, c.trace_ids)
        WITH ORDINALITY AS i (payload, transaction_id, trace_id, n);
    GET DIAGNOSTICS stored = ROW_COUNT;
    v_flag := set_config('queen.tracks_lookup', '', true);
    UPDATE queen.partition_lookup l
    SET last_seq = l.last_seq + n.messages,
        last_message_id = queen.message_id(v_prefixes[n.k], l.last_seq + n.messages),
        last_message_created_at = v_times[n.k],
        last_xid = pg_current_xact_id()
    FROM unnest(p_partition_ids, v_counts) WITH ORDINALITY AS n (partition_id, messages, k)
    WHERE l.partition_id = n.partition_id AND n.messages > 0;
END
$$;
