-- Publish what the tasks of one Spark batch have staged: all of it in this transaction, and once per batch.
--
-- Arguments: who writes and which batch (see queen.spark_commits); the stages in the order of their tasks,
-- and how many messages each has; the digest of all of them, NULL for one that is not to be compared.
-- Result: is_repeat, the same batch was published before and nothing was done; otherwise how many messages were
-- stored, were duplicates of stored ones, or were queued behind operations that wait in their partitions.
-- Within a partition the order is that of the stages, then of their lists. The staged rows are gone then.
-- Tables: spark_commits (insert, delete), spark_staging (delete), those of ensure_partitions, store_staged and
-- queue_staged.
-- Locks, in the common order: the row of the batch, so that of two publishers of a batch one waits; as
-- ensure_partitions; all lookup rows in partition id order, held to commit; the queues' publication keys, shared,
-- which no other session takes; where operations wait as queue_push; the bounded queues as queue_rooms. Because the lookup rows are held, whether operations wait is
-- asked once: what is queued later runs after this commit.
-- Errors: QN021 another batch of this number was published, or may have been, since the notes of that time are
-- gone; QN020 staged rows are missing; QN002 a queue is at its maxSize; QN003 too many operations wait in a
-- partition; QN005 staged rows of an encrypted queue are in clear; those of ensure_partitions. Nothing is published then.
CREATE OR REPLACE FUNCTION queen.publish_staged(
    p_query_id text,
    p_batch_id bigint,
    p_stage_ids uuid[],
    p_stage_counts bigint[],
    p_digest bigint,
    OUT is_repeat boolean,
    OUT stored bigint,
    OUT duplicates bigint,
    OUT queued bigint
)
LANGUAGE plpgsql
AS $$
DECLARE
    -- A checkpoint keeps as many batches.
    c_batches_kept CONSTANT integer := 100;
    c_expected CONSTANT bigint := coalesce((SELECT sum(n) FROM unnest(p_stage_counts) AS u (n)), 0);
    v_queue_names text[];
    v_partition_names text[];
    v_ids uuid[];
    v_locked bigint;
    v_behind uuid[];
    v_before record;
    v_full text;
    v_clear text;
BEGIN
    stored := 0;
    duplicates := 0;
    queued := 0;
    INSERT INTO queen.spark_commits (query_id, batch_id, messages, digest)
    VALUES (p_query_id, p_batch_id, c_expected, p_digest)
    ON CONFLICT (query_id, batch_id) DO NOTHING;
    is_repeat := NOT FOUND;
    IF is_repeat THEN
        SELECT c.messages, c.digest INTO v_before FROM queen.spark_commits c
        WHERE c.query_id = p_query_id AND c.batch_id = p_batch_id;
        IF v_before.digest IS NOT NULL AND p_digest IS NOT NULL
           AND (v_before.messages <> c_expected OR v_before.digest <> p_digest) THEN
            RAISE EXCEPTION 'batch % was published before with % other rows, and has % now',
                p_batch_id, v_before.messages, c_expected USING ERRCODE = 'QN021';
        END IF;
        PERFORM queen.discard_staged(p_stage_ids);
        RETURN;
    END IF;
    IF EXISTS (SELECT FROM queen.spark_commits
               WHERE query_id = p_query_id AND batch_id > p_batch_id + c_batches_kept) THEN
        RAISE EXCEPTION 'batch % is more than % batches older than the last one that was published',
            p_batch_id, c_batches_kept USING ERRCODE = 'QN021';
    END IF;
    DELETE FROM queen.spark_commits WHERE query_id = p_query_id AND batch_id < p_batch_id - c_batches_kept;

    SELECT array_agg(d.queue), array_agg(d.partition) INTO v_queue_names, v_partition_names
    FROM (SELECT DISTINCT s.queue, s.partition FROM queen.spark_staging s
          WHERE s.stage_id = ANY (p_stage_ids)) d;
    SELECT array_agg(e.partition_id ORDER BY e.partition_id),
           array_agg(e.queue_name ORDER BY e.partition_id),
           array_agg(e.partition_name ORDER BY e.partition_id)
    INTO v_ids, v_queue_names, v_partition_names
    FROM queen.ensure_partitions(v_queue_names, v_partition_names, NULL) e;
    SELECT min(q.name) INTO v_clear
    FROM queen.queues q
    WHERE q.name = ANY (v_queue_names) AND q.encryption_enabled
      AND EXISTS (SELECT FROM queen.spark_staging s
                  WHERE s.stage_id = ANY (p_stage_ids) AND s.queue = q.name AND NOT s.is_encrypted);
    IF v_clear IS NOT NULL THEN
        RAISE EXCEPTION 'queue % is encrypted and the batch is in clear, so nothing of it was published', v_clear
            USING ERRCODE = 'QN005', HINT = 'Encrypt it: give the write the option encryptionKeys.';
    END IF;
    -- Lock first, then look, in statements of their own; see push_messages.
    PERFORM FROM queen.partition_lookup WHERE partition_id = ANY (v_ids)
    ORDER BY partition_id FOR NO KEY UPDATE;
    GET DIAGNOSTICS v_locked = ROW_COUNT;
    IF v_locked <> cardinality(v_ids) THEN
        RAISE EXCEPTION 'a partition of this batch does not exist any more' USING ERRCODE = 'QN001';
    END IF;
    v_behind := ARRAY(SELECT DISTINCT o.partition_id FROM queen.operation_queue o
                      WHERE o.partition_id = ANY (v_ids) AND o.is_blocking);
    -- Says why these partitions are held: from now on pushes queue up behind the batch instead of waiting for it.
    -- Not before, or what they queue would be in front of it.
    PERFORM pg_advisory_xact_lock_shared(queen.publication_key(q.id))
    FROM (SELECT id FROM queen.queues WHERE name = ANY (v_queue_names) ORDER BY id) q;
    IF cardinality(v_behind) > 0 THEN
        queued := queen.queue_staged(p_stage_ids, v_behind);
        -- All bounded queues of the batch at once, for the order of their locks. What was queued is counted.
        SELECT min(q.name) INTO v_full
        FROM queen.queue_rooms(ARRAY(SELECT l.queue_id FROM queen.partition_lookup l
                                     WHERE l.partition_id = ANY (v_ids))) r
        JOIN queen.queues q ON q.id = r.queue_id
        WHERE r.room < 0 AND EXISTS (SELECT FROM queen.partition_lookup l
                                     WHERE l.partition_id = ANY (v_behind) AND l.queue_id = q.id);
        IF v_full IS NOT NULL THEN
            RAISE EXCEPTION 'queue % is at its maxSize, so nothing of the batch was published', v_full
                USING ERRCODE = 'QN002';
        END IF;
    END IF;
    SELECT s.* INTO stored, duplicates
    FROM (SELECT array_agg(p.id ORDER BY p.id) AS ids, array_agg(p.queue ORDER BY p.id) AS queues,
                 array_agg(p.name ORDER BY p.id) AS names
          FROM unnest(v_ids, v_queue_names, v_partition_names) AS p (id, queue, name)
          WHERE p.id <> ALL (v_behind)) p
    CROSS JOIN LATERAL queen.store_staged(p_stage_ids, p.ids, p.queues, p.names) s;
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
