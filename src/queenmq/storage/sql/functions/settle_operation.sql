-- What an operator decides about a failed operation: retry it, with all its tries, or discard it.
--
-- Arguments: p_action 'retry' or 'discard'.
-- Result: the status before; NULL when there is no such operation. Only a failed one is changed.
-- A retried operation whose followers have gone on already comes after them.
-- Locks: the operation's row.
CREATE OR REPLACE FUNCTION queen.settle_operation(p_id uuid, p_action text)
RETURNS text
LANGUAGE plpgsql
AS $$
DECLARE
    v_status text;
BEGIN
    SELECT o.status INTO v_status FROM queen.operation_queue o WHERE o.id = p_id FOR UPDATE;
    IF v_status IS DISTINCT FROM 'failed' THEN
        RETURN v_status;
    END IF;
    IF p_action = 'retry' THEN
        UPDATE queen.operation_queue
        SET status = 'pending', is_blocking = true, processed_at = NULL, retry_count = 0,
            next_run_at = '-infinity'
        WHERE id = p_id;
    ELSE
        UPDATE queen.operation_queue
        SET status = 'discarded', is_blocking = false, processed_at = clock_timestamp()
        WHERE id = p_id;
    END IF;
    RETURN v_status;
END
$$;
