-- Give back claimed operations that were not run, and note why one of them failed.
--
-- Arguments: the operations and the token of their claim; those that another broker has claimed since are left
-- alone. p_failed_id: the one that failed, with p_error; NULL when none is at fault. p_is_counted: whether that
-- counts as a run; after max_retries of them the operation is failed, and its queue's onFailedOperation says
-- whether the ones behind it wait for an operator. p_delay_ms: the failed one is not tried again before.
-- Tables: operation_queue (update).
-- Locks: where a run counts, the queue's row FOR SHARE, because configure_queue changes what a failure means;
-- the operations, in id order.
CREATE OR REPLACE FUNCTION queen.release_operations(
    p_ids uuid[],
    p_token uuid,
    p_failed_id uuid,
    p_error text,
    p_is_counted boolean,
    p_delay_ms integer
)
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    v_is_over boolean;
BEGIN
    IF p_is_counted THEN
        PERFORM FROM queen.queues q
        WHERE q.id = (SELECT o.queue_id FROM queen.operation_queue o WHERE o.id = p_failed_id) FOR SHARE;
    END IF;
    PERFORM FROM queen.operation_queue o WHERE o.id = ANY (p_ids) AND o.claim_token = p_token
    ORDER BY o.id FOR UPDATE;
    UPDATE queen.operation_queue o
    SET status = 'pending', claim_token = NULL, claimed_by_worker = NULL, processing_started_at = NULL
    WHERE o.id = ANY (p_ids) AND o.claim_token = p_token AND o.id IS DISTINCT FROM p_failed_id;
    SELECT p_is_counted AND o.retry_count + 1 >= o.max_retries INTO v_is_over
    FROM queen.operation_queue o WHERE o.id = p_failed_id;
    UPDATE queen.operation_queue o
    SET status = CASE WHEN v_is_over THEN 'failed' ELSE 'pending' END,
        is_blocking = NOT v_is_over OR q.on_failed_operation = 'stop',
        processed_at = CASE WHEN v_is_over THEN clock_timestamp() END,
        retry_count = o.retry_count + p_is_counted::integer,
        error_message = p_error, last_error_at = clock_timestamp(),
        next_run_at = clock_timestamp() + make_interval(secs => p_delay_ms / 1000.0),
        claim_token = NULL, claimed_by_worker = NULL, processing_started_at = NULL
    FROM queen.queues q
    WHERE o.id = p_failed_id AND o.claim_token = p_token AND q.id = o.queue_id;
END
$$;
