-- Apply an operator's decision about an operation: retry a failed one, with all its tries, or discard one that is not
-- stored yet.
--
-- Arguments: p_action 'retry' or 'discard'.
-- Result: the status before; NULL when there is no such operation. A retry changes failed ones, a discard also
-- pending and processing ones. One that is being run is waited for, and then is completed. One that is claimed and
-- not run yet is taken from its claim, which run_operations notices.
-- A retried operation whose followers have gone on already goes to the end of the line: who is next in a
-- partition never moves back, which claims rely on.
-- Locks: the operation's row; for a retry of such a one also that of lock_lines.
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
    IF p_action = 'retry' AND v_status = 'failed' THEN
        IF NOT v_is_blocking THEN
            PERFORM queen.lock_lines(ARRAY[v_partition_id]);
            SELECT max(o.seq) + 1 INTO v_seq
            FROM queen.operation_queue o WHERE o.partition_id = v_partition_id;
        END IF;
        UPDATE queen.operation_queue
        SET status = 'pending', is_blocking = true, processed_at = NULL, retry_count = 0,
            next_run_at = '-infinity', seq = v_seq
        WHERE id = p_id;
    ELSIF p_action = 'discard' AND v_status IN ('pending', 'processing', 'failed') THEN
        UPDATE queen.operation_queue
        SET status = 'discarded', is_blocking = false, processed_at = clock_timestamp(),
            claim_token = NULL, claimed_by_worker = NULL, processing_started_at = NULL
        WHERE id = p_id;
    END IF;
    RETURN v_status;
END
$$;
