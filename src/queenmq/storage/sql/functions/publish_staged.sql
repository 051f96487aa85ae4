-- Publish what the tasks of one Spark batch have staged: all of it in this transaction, and once per batch.
--
-- Arguments: who writes and which batch (see queen.spark_commits); the stages in the order of their tasks,
-- and how many rows each has.
-- Result: is_repeat, the batch was published before and nothing was done; otherwise how many messages were
-- stored, were duplicates of stored ones, or were queued behind operations that wait in their partitions.
-- Within a partition the order is that of the stages, then of their ordinals. The staged rows are gone then.
-- Tables: spark_commits (insert, delete), spark_staging (delete), those of ensure_partitions, push_messages
-- and queue_push.
-- Locks, the order of everybody: the row of the batch, so that of two publishers of a batch one waits; as
-- ensure_partitions; all lookup rows in partition id order, held to commit; where operations wait as
-- queue_push, partitions ascending; the bounded queues as queue_rooms, all at once. The pushes after that
-- take nothing new. Because the lookup rows are held, whether operations wait is asked once: what is queued
-- later runs after this commit.
-- Errors: QN020 staged rows are missing; QN002 a queue is at its maxSize; QN003 too many operations wait in a
-- partition; those of ensure_partitions and push_messages. Nothing is published then.
CREATE OR REPLACE FUNCTION queen.publish_staged(
    p_query_id text,
    p_batch_id bigint,
    p_stage_ids uuid[],
    p_stage_counts bigint[],
    OUT is_repeat boolean,
    OUT stored bigint,
    OUT duplicates bigint,
    OUT queued bigint
)
LANGUAGE plpgsql
AS $$
DECLARE
    -- Per inner call; a single payload may exceed the second.
    c_items_max CONSTANT integer := 5000;
    c_bytes_max CONSTANT bigint := 8 * 1024 * 1024;
    -- As the brokers' own bound.
    c_queue_max CONSTANT integer := 10000;
    -- A checkpoint keeps as many batches.
    c_batches_kept CONSTANT integer := 100;
    c_expected CONSTANT bigint := coalesce((SELECT sum(n) FROM unnest(p_stage_counts) AS u (n)), 0);
    v_queue_names text[];
    v_partition_names text[];
    v_ids uuid[];
    v_behind uuid[];
    v_queue_ids uuid[];
    v_nestloop text;
    v_rows refcursor;
    v_chunk record;
    v_items record;
    v_places integer[];
    v_pushed record;
    v_has_rooms boolean := false;
BEGIN
    stored := 0;
    duplicates := 0;
    queued := 0;
    INSERT INTO queen.spark_commits (query_id, batch_id, messages)
    VALUES (p_query_id, p_batch_id, c_expected)
    ON CONFLICT (query_id, batch_id) DO NOTHING;
    is_repeat := NOT FOUND;
    IF is_repeat THEN
        PERFORM queen.discard_staged(p_stage_ids);
        RETURN;
    END IF;
    DELETE FROM queen.spark_commits WHERE query_id = p_query_id AND batch_id < p_batch_id - c_batches_kept;

    SELECT array_agg(d.queue), array_agg(d.partition) INTO v_queue_names, v_partition_names
    FROM (SELECT DISTINCT s.queue, s.partition FROM queen.spark_staging s
          WHERE s.stage_id = ANY (p_stage_ids)) d;
    SELECT array_agg(e.partition_id ORDER BY e.partition_id), array_agg(DISTINCT e.queue_id),
           array_agg(e.queue_name ORDER BY e.partition_id),
           array_agg(e.partition_name ORDER BY e.partition_id)
    INTO v_ids, v_queue_ids, v_queue_names, v_partition_names
    FROM queen.ensure_partitions(v_queue_names, v_partition_names, NULL) e;
    -- Lock first, then look, in statements of their own; see push_messages.
    PERFORM FROM queen.partition_lookup WHERE partition_id = ANY (v_ids)
    ORDER BY partition_id FOR NO KEY UPDATE;
    v_behind := ARRAY(SELECT DISTINCT o.partition_id FROM queen.operation_queue o
                      WHERE o.partition_id = ANY (v_ids) AND o.is_blocking);
    -- First the partitions where operations wait, then the others, each in id order: so a chunk is about some
    -- neighbours of this list, and its items count from the first of them.
    IF cardinality(v_behind) > 0 THEN
        SELECT array_agg(u.id ORDER BY u.is_direct, u.id), array_agg(u.queue ORDER BY u.is_direct, u.id),
               array_agg(u.name ORDER BY u.is_direct, u.id)
        INTO v_ids, v_queue_names, v_partition_names
        FROM (SELECT p.*, p.id <> ALL (v_behind) AS is_direct
              FROM unnest(v_ids, v_queue_names, v_partition_names) AS p (id, queue, name)) u;
    END IF;

    -- Nobody keeps statistics of rows that live for seconds; a nested loop over two long lists takes ages.
    v_nestloop := current_setting('enable_nestloop');
    PERFORM set_config('enable_nestloop', 'off', true);
    OPEN v_rows NO SCROLL FOR
        SELECT min(i.k)::integer AS first, max(i.k)::integer AS last, count(*)::integer AS items,
               array_agg(i.k::integer ORDER BY i.n) AS places, array_agg(i.row ORDER BY i.n) AS rows
        FROM (SELECT p.k, s.ctid AS row, row_number() OVER line AS n,
                     sum(octet_length(s.payload)) OVER line AS bytes
              FROM queen.spark_staging s
              JOIN unnest(p_stage_ids) WITH ORDINALITY AS g (stage_id, task) ON g.stage_id = s.stage_id
              JOIN unnest(v_queue_names, v_partition_names) WITH ORDINALITY AS p (queue, name, k)
                  ON p.queue = s.queue AND p.name = s.partition
              WHERE s.stage_id = ANY (p_stage_ids)
              WINDOW line AS (ORDER BY p.k, g.task, s.ordinal ROWS UNBOUNDED PRECEDING)) i
        GROUP BY i.k <= cardinality(v_behind), (i.n - 1) / c_items_max, div(i.bytes, c_bytes_max)
        ORDER BY min(i.n);
    PERFORM set_config('enable_nestloop', v_nestloop, true);
    LOOP
        FETCH v_rows INTO v_chunk;
        EXIT WHEN NOT FOUND;
        v_places := ARRAY(SELECT u.k - v_chunk.first + 1 FROM unnest(v_chunk.places) AS u (k));
        -- Payloads were not sorted with the rest: they may be far more than memory.
        SELECT * INTO v_items FROM queen.read_staged(v_chunk.rows);
        -- Somebody discards what is being published; the sum below tells.
        EXIT WHEN cardinality(v_items.payloads) IS DISTINCT FROM v_chunk.items;
        IF v_chunk.first <= cardinality(v_behind) THEN
            PERFORM queen.queue_push(
                v_ids[v_chunk.first:v_chunk.last], v_places, v_items.transaction_ids, v_items.trace_ids,
                v_items.payloads, NULL, NULL, array_fill(1, ARRAY[v_chunk.items]),
                ARRAY(SELECT generate_series(0, v_chunk.items - 1)),
                array_fill(true, ARRAY[v_chunk.last - v_chunk.first + 1]), c_queue_max);
            queued := queued + v_chunk.items;
            CONTINUE;
        END IF;
        IF NOT v_has_rooms THEN
            -- For its locks: chunks come in the order of partitions, not of queues.
            PERFORM queen.queue_rooms(v_queue_ids, '{}');
            v_has_rooms := true;
        END IF;
        SELECT * INTO v_pushed FROM queen.push_messages(
            v_ids[v_chunk.first:v_chunk.last], v_places, v_items.transaction_ids, v_items.trace_ids,
            v_items.payloads, NULL, NULL, NULL, NULL, NULL, false, false, NULL);
        IF strpos(v_pushed.outcomes, 'f') > 0 THEN
            RAISE EXCEPTION 'queue % is at its maxSize, so nothing of the batch was published',
                v_queue_names[v_chunk.first + v_places[strpos(v_pushed.outcomes, 'f')] - 1]
                USING ERRCODE = 'QN002';
        END IF;
        duplicates := duplicates + v_chunk.items - length(replace(v_pushed.outcomes, 'd', ''));
        stored := stored + length(replace(v_pushed.outcomes, 'd', ''));
    END LOOP;
    CLOSE v_rows;
    IF stored + duplicates + queued <> c_expected THEN
        RAISE EXCEPTION 'of % staged rows % are there', c_expected, stored + duplicates + queued
            USING ERRCODE = 'QN020';
    END IF;

    PERFORM queen.discard_staged(p_stage_ids);
    -- No broker is the sender, so all of them listen.
    PERFORM pg_notify('queen_wake', json_build_object('from', '', 'queues', json_build_array(u.name))::text)
    FROM (SELECT DISTINCT name FROM unnest(v_queue_names) AS q (name)) u;
END
$$;
