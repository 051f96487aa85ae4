-- Store staged rows as messages, for publish_staged, who holds the lookup rows of all their partitions.
--
-- Arguments: the stages in the order of their tasks; distinct partitions in ascending order, with the names
-- that staged rows have for them. Rows of other partitions are left alone.
-- Result: how many became messages, and how many have a transaction id that their partition has already or
-- that stands twice.
-- It does with one statement what push_messages does call by call: arrays of all the payloads would take
-- longer to build than the messages to store. What an id looks like, what is stored already and how much room
-- a queue has are the same functions there and here.
-- The settings: nobody keeps statistics of rows that live for seconds, so plans are to hash the short lists
-- and never to loop over two long ones; a batch of usual size is to be sorted in memory; queen.tracks_lookup
-- as in push_messages.
-- Tables: spark_staging (read), messages (insert), partition_lookup (update).
-- Locks: as queue_rooms.
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
SET work_mem = '128MB'
SET queen.tracks_lookup = 'on'
AS $$
DECLARE
    v_queue_ids uuid[];
    v_last_seqs bigint[];
    v_times timestamptz[];
    v_prefixes text[];
    v_repeats tid[];
    v_items integer[];
    v_rooms bigint[];
    v_full integer;
BEGIN
    -- The time as in push_messages.
    SELECT array_agg(l.queue_id ORDER BY l.partition_id), array_agg(l.last_seq ORDER BY l.partition_id),
           array_agg(c.now ORDER BY l.partition_id),
           array_agg(queen.message_id_prefix(l.partition_id, c.now) ORDER BY l.partition_id)
    INTO v_queue_ids, v_last_seqs, v_times, v_prefixes
    FROM queen.partition_lookup l
    CROSS JOIN LATERAL (SELECT greatest(l.last_message_created_at, clock_timestamp()) AS now) c
    WHERE l.partition_id = ANY (p_partition_ids);

    -- Of the same transaction id in a partition the first wins.
    v_repeats := ARRAY(
        SELECT r.row
        FROM (SELECT s.ctid AS row, p.k, s.transaction_id,
                     row_number() OVER (PARTITION BY p.k, s.transaction_id ORDER BY g.task, s.ordinal) AS nth
              FROM queen.spark_staging s
              JOIN unnest(p_stage_ids) WITH ORDINALITY AS g (stage_id, task) ON g.stage_id = s.stage_id
              JOIN unnest(p_queue_names, p_partition_names) WITH ORDINALITY AS p (queue, name, k)
                  ON p.queue = s.queue AND p.name = s.partition
              WHERE s.stage_id = ANY (p_stage_ids) AND s.transaction_id IS NOT NULL) r
        WHERE r.nth > 1
           OR (v_last_seqs[r.k] > 0
               AND EXISTS (SELECT FROM queen.find_stored(p_partition_ids[r.k], r.transaction_id))));
    duplicates := cardinality(v_repeats);

    -- With one item each at first: hardly any queue is bounded, and the list of all items is long.
    v_rooms := queen.queue_rooms(v_queue_ids, ARRAY(SELECT generate_subscripts(v_queue_ids, 1)));
    IF v_rooms IS NOT NULL THEN
        v_items := ARRAY(
            SELECT p.k
            FROM queen.spark_staging s
            JOIN unnest(p_queue_names, p_partition_names) WITH ORDINALITY AS p (queue, name, k)
                ON p.queue = s.queue AND p.name = s.partition
            WHERE s.stage_id = ANY (p_stage_ids)
              AND NOT EXISTS (SELECT FROM unnest(v_repeats) AS u (row) WHERE u.row = s.ctid));
        v_rooms := queen.queue_rooms(v_queue_ids, v_items);
        SELECT n.k INTO v_full
        FROM (SELECT u.k, count(*) AS items FROM unnest(v_items) AS u (k) GROUP BY u.k) n
        WHERE n.items > v_rooms[n.k] LIMIT 1;
        IF FOUND THEN
            RAISE EXCEPTION 'queue % is at its maxSize, so nothing of the batch was published',
                p_queue_names[v_full] USING ERRCODE = 'QN002';
        END IF;
    END IF;

    WITH added AS (
        INSERT INTO queen.messages
            (partition_id, seq, id, queue_id, transaction_id, trace_id, created_at, payload)
        SELECT p_partition_ids[i.k], i.seq, queen.message_id(v_prefixes[i.k], i.seq), v_queue_ids[i.k],
               i.transaction_id, i.trace_id, v_times[i.k], i.payload::json
        FROM (SELECT p.k, s.transaction_id, s.trace_id, s.payload,
                     v_last_seqs[p.k] + row_number() OVER (PARTITION BY p.k ORDER BY g.task, s.ordinal) AS seq
              FROM queen.spark_staging s
              JOIN unnest(p_stage_ids) WITH ORDINALITY AS g (stage_id, task) ON g.stage_id = s.stage_id
              JOIN unnest(p_queue_names, p_partition_names) WITH ORDINALITY AS p (queue, name, k)
                  ON p.queue = s.queue AND p.name = s.partition
              WHERE s.stage_id = ANY (p_stage_ids)
                AND NOT EXISTS (SELECT FROM unnest(v_repeats) AS u (row) WHERE u.row = s.ctid)) i
        RETURNING partition_id, seq
    ), newest AS (
        SELECT a.partition_id, max(a.seq) AS seq, count(*) AS items FROM added a GROUP BY a.partition_id
    ), moved AS (
        UPDATE queen.partition_lookup l
        SET last_seq = n.seq,
            last_message_id = queen.message_id(v_prefixes[p.k], n.seq),
            last_message_created_at = v_times[p.k]
        FROM newest n JOIN unnest(p_partition_ids) WITH ORDINALITY AS p (id, k) ON p.id = n.partition_id
        WHERE l.partition_id = n.partition_id
    )
    SELECT coalesce(sum(n.items), 0) INTO stored FROM newest n;
END
$$;
