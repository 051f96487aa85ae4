-- What an operator decides about a failed operation: retry it, with all its tries, or discard it.
--
-- Arguments: p_action 'retry' or 'discard'.
-- Result: the status before; NULL when there is no such operation. Only a failed one is changed.
-- A retried operation whose followers have gone on already goes to the end of the line: who is next in a
-- partition never moves back, which claims rely on.
-- Locks: the operation's row; in that case also that of lock_lines.
CREATE OR REPLACE FUNCTION queen.settle_operation(p_id uuid, p_action text)
RETURNS text
LANGUAGE plpgsql
AS $$
DECLARE
    v_status text;
    v_partition_id uuid;
    v_is_blocking boolean;
    v_seq bigint;
BEGIN
    SELECT o.status, o.partition_id, o.is_blocking, o.seq
    INTO v_status, v_partition_id, v_is_blocking, v_seq
    FROM queen.operation_queue o WHERE o.id = p_id FOR UPDATE;
    IF v_status IS DISTINCT FROM 'failed' THEN
        RETURN v_status;
    END IF;
    IF p_action = 'retry' THEN
        IF NOT v_is_blocking THEN
            PERFORM queen.lock_lines(ARRAY[v_partition_id]);
            SELECT max(o.seq) + 1 INTO v_seq
            FROM queen.operation_queue o WHERE o.partition_id = v_partition_id;
        END IF;
        UPDATE queen.operation_queue
        SET status = 'pending', is_blocking = true, processed_at = NULL, retry_count = 0,
            next_run_at = '-infinity', seq = v_seq
        WHERE id = p_id;
    ELSE
        UPDATE queen.operation_queue
        SET status = 'discarded', is_blocking = false, processed_at = clock_timestamp()
        WHERE id = p_id;
    END IF;
    RETURN v_status;
END
$$;
